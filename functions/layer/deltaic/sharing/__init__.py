"""The use cases: what a recipient may see, and what each endpoint answers."""
