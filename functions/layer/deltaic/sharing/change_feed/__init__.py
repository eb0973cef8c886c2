"""Answer change feeds and version ranges of a table."""
