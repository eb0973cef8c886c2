"""Checkpoints of small tables without Spark, for logs whose writers leave none."""
