"""Run a dataset: read, check and commit its rows exactly once, even if a run is killed and repeated.

For example `deltaic pipeline run visits.yaml`, with a database as its source and `write: {mode: merge}`:

    job             checks everything that needs no Spark, then starts Spark; `run_recording` writes to the runs table
    batch           holds the table's lease during the next steps; `delivery` skips input that was already written
    watermark       finds how far the last committed run has read; `windows` limits the rows that this run reads
    sql_steps       creates a view of each source (`database`) and step; the last view has the rows to write
    target_checks   raises an error for rows that the table cannot accept, before anything is written
    quality         applies `expectations` (counted by `observation`), writes, and quarantines the rows that fail

`stream` runs the batches of a dataset with a stream; `file_log` reads its checkpoint. With --dry-run, `dry_run`
replaces `batch`. `backfill` runs a dataset once for each of the `time_steps`, by `step_execution`. `run_state` defines
the dataclasses that these modules share. `deltaic_pipeline.table` writes the tables.
"""
