"""Pages for recipients: HTML without scripts, out of values alone."""
