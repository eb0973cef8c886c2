"""Commands for deploying, checking and removing a stack."""
