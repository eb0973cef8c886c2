"""A function that cannot be imported."""

raise RuntimeError("no settings")
