"""Maintain a Delta table: run OPTIMIZE, write checkpoints, and delete files that no reader needs."""
