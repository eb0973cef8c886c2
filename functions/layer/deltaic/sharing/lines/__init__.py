"""Render NDJSON lines: files of a snapshot and changes of a range, signed, cached and paged."""
