"""Commands for Spark jobs and their schedules."""
