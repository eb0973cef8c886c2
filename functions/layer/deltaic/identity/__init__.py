"""JWTs: what one says, whether its issuer signed it, and whose keys those are. It knows no catalog and no AWS."""
