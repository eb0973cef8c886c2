"""Maintain a table: OPTIMIZE, checkpoints, and the deletion of files that no reader needs."""
