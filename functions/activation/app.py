"""GET and POST /activate/{secret}: the page of an invitation link, where a recipient creates a profile once."""

from deltaic.http.activation_endpoint import activate
from deltaic.http.edge import public

handler = public("activation", activate)
