"""Checks any Delta Sharing server against the protocol, knowing no more than a profile file tells."""
