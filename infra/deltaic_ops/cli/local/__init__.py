"""Commands for a server on this machine."""
