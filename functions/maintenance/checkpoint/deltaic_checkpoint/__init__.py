"""Write checkpoints without Spark, for small tables whose writers write none."""
