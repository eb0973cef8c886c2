"""Manage Spark jobs on EMR Serverless: their package, files, runs and schedules."""
