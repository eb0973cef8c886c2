"""Authenticate recipients: activation links, OAuth token requests, bearer tokens and JWTs of other issuers."""
