"""Pages for recipients: HTML without scripts, created from plain values."""
