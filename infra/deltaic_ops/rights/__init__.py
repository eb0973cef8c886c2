"""Report what recipients can read, write their profile files, and block their credentials."""
