"""Holds what is read of a checkpoint, and in which order."""
