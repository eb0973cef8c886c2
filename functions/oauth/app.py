"""POST /oauth/token and GET /.well-known/{document}: short-lived tokens for a recipient's clients."""

from deltaic.http.edge import public
from deltaic.http.oauth_endpoint import oauth

handler = public("oauth", oauth)
