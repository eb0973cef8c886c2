"""Commands that deploy, check and remove a stack."""
