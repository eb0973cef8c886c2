"""Declared datasets: a YAML file says which rows a Delta table shall hold, and a Spark job builds the table.

For example `deltaic pipeline run patients.yaml --run-id 2026-11-22`:

    file    reads patients.yaml and checks it: a `Dataset`, or every mistake with its line; needs no Spark
    run     reads the sources, applies steps and expectations, and commits the rows in one transaction

`run` imports `file`, never the reverse. Reading sources, writing tables, leases and the catalog are `deltaic_pipeline`,
which imports nothing of this package: its `entry` and `arguments` know the jobs `run` and `backfill` by name. Starting
jobs on EMR Serverless and schedules is `deltaic_ops.jobs`.
"""
