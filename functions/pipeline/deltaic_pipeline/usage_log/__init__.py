"""The access logs of functions and S3 as one table: who asked for what, and what was fetched."""
