"""Declared datasets: a YAML file describes the rows of a Delta table, and a Spark job builds the table.

For example `deltaic pipeline run patients.yaml --run-id 2026-11-22`:

    file    reads and checks patients.yaml without Spark: returns a `Dataset`, or all errors with their lines
    run     reads the sources, applies SQL steps and expectations, and commits the rows in one Delta transaction

`run` imports `file`, never the reverse. `deltaic_pipeline` reads sources, writes tables, holds leases, and registers
tables in the catalog. It imports nothing from this package: its modules `entry` and `arguments` refer to the jobs `run`
and `backfill` by name. `deltaic_ops.jobs` starts jobs on EMR Serverless and manages schedules.
"""
