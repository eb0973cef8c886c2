"""Declared datasets: a YAML file describes the rows of a Delta table, and a Spark job builds the table.

For example `deltaic pipeline run patients.yaml --run-id 2026-11-22`:

    file    reads and checks patients.yaml: returns a `Dataset`, or all mistakes with their lines; needs no Spark
    run     reads the sources, applies steps and expectations, and commits the rows in one transaction

`run` imports `file`, never the reverse. `deltaic_pipeline` reads sources, writes tables, and takes care of leases and
the catalog. It imports nothing from this package: its `entry` and `arguments` refer to the jobs `run` and `backfill` by
name. `deltaic_ops.jobs` starts jobs on EMR Serverless and manages schedules.
"""
