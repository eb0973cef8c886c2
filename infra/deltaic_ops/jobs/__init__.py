"""Manage Spark jobs on EMR Serverless: their code package, dataset files, runs and schedules."""
