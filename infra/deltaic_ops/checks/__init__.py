"""Check a server: its endpoint as a recipient (verify), its stack as an operator (doctor)."""
