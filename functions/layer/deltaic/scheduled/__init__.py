"""Scheduled work: checks of followed sources, notices for the provider, and expirations."""
