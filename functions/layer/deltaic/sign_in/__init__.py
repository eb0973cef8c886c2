"""Sign recipients in: activation links, OAuth token requests, and JWTs of other issuers."""
