"""Parse and create JWTs, check their signatures, and download the public keys of their issuers."""
