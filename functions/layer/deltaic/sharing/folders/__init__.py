"""Serve volumes, skills and models: list them, list and sign their files, and vend credentials."""
