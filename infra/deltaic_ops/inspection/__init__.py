"""Inspect tables and folders that are or will be shared, with the operator's credentials.

`deltaic lint s3://lake/orders`, and the warnings of `deltaic table create`:

    survey              read the log and some Parquet footers: features, sizes, statistics
    lint                what recipients would run into, as findings
    table_look          the latest version; which clients can read the table, and why others cannot
    shared_schema       columns of the latest version; filters and hidden columns must match them
    filter_checks       the same for grants and row filters
    folder_contents     SKILL.md and MLmodel of folders

Nothing is written, and nothing is asked of a deployed stack: that is `deltaic_ops.checks`.
"""
