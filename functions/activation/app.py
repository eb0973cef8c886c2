"""GET and POST /activate/{secret}: the page of a link by which a recipient makes its own profile, once."""

from deltaic.http.activation_endpoint import activate
from deltaic.http.edge import public

handler = public("activation", activate)
