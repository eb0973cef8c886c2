"""Commands that run and schedule Spark jobs."""
