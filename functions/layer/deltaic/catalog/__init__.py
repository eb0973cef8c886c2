"""Shares, schemas, tables, recipients, grants, tokens, storages and leases in DynamoDB."""
