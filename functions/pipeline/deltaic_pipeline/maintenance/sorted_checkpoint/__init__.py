"""Sort v2 checkpoints by partition and clustering columns, so that filtered queries read few of their rows."""
