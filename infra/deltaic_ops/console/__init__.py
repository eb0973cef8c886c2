"""The operator's console: pages of this machine about what is shared with whom, drawn on the server."""
