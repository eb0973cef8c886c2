"""Spark jobs on EMR Serverless as the operator sees them: their package, their runs, their schedules."""
