"""Decide what a recipient can read: grants, row filters, limits and hidden tables."""
