"""The upkeep of a table: OPTIMIZE, checkpoints, and the deletion of files that no version needs."""
