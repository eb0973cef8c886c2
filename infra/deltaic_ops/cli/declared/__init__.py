"""Commands for a catalog that is declared in files."""
