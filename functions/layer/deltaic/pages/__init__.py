"""HTML pages for recipients, which work without scripts."""
