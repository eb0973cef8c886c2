"""Inspect tables and folders that are or will be shared."""
