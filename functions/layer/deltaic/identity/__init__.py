"""Parse and create JWTs, check their signatures, and download issuers' keys, without the catalog and AWS."""
