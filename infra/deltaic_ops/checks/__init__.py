"""Check a sharing server: its endpoint as a recipient (`deltaic verify`), its stack as an operator (`doctor`)."""
