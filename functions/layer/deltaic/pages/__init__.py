"""HTML pages for recipients, without scripts."""
