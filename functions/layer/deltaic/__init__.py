"""Deltaic: a Delta Sharing server whose every endpoint is a function."""
