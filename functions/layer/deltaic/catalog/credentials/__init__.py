"""Store the credentials of recipients: bearer tokens, invitations, OAuth clients and federation policies."""
