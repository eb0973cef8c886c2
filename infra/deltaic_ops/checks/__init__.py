"""Checks of a provider: as a recipient against the endpoint (verify), as an operator against the stack (doctor)."""
