"""Render NDJSON lines for files and changes: sign their URLs, cache unsigned lines, and split them into pages."""
