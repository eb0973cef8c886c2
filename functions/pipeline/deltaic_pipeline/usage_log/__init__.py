"""Collect the access logs of functions and S3 in one table: requests of recipients, and downloads."""
