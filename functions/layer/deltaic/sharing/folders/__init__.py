"""Answer requests for volumes, skills and models: listings, files and credentials."""
