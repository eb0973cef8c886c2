"""Parse and create JWTs, check their signatures, and download issuers' keys."""
