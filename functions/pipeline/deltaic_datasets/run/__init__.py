"""The run of a dataset: its rows are read, checked and committed once, whatever is killed in between.

For example `deltaic pipeline run visits.yaml`, with a database as its source and `write: {mode: merge}`:

    job             checks the file and what is known without Spark, then starts Spark; `recording` logs the outcome
    batch           holds the table's lease while the following happens
    watermark       finds how far the last committed run read; `windows` bounds what this run reads
    sql_steps       makes a view of each source (`database`) and step; the last one has the rows to write
    fitness         refuses rows that cannot enter the table, before anything is written
    quality         applies `expectations`, writes, and quarantines the rows that fail

`stream` does the batches of a file with `stream`, and `dry_run` takes the place of `batch` with --dry-run; `backfill`
runs a dataset once for each of the `time_steps`. How a table is written is `deltaic_pipeline.table`.
"""
