"""Checkpoints of small tables without Spark, for tables whose writers write none."""
