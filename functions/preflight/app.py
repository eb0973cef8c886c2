"""OPTIONS of every route for recipients: checks the origin of a web page."""

from deltaic.http.cors import preflight
from deltaic.http.edge import public

handler = public("preflight", preflight)
