"""OPTIONS of every route for recipients: whether a page of another origin may ask."""

from deltaic.http.cors import preflight
from deltaic.http.edge import public

handler = public("preflight", preflight)
