"""Store what recipients sign in with: tokens, invitations, OAuth clients and federation policies."""
