"""Inspect tables and folders that are or will be shared, with the operator's credentials.

`deltaic lint s3://lake/orders`, and the warnings of `deltaic table create`:

    survey              read the log and some Parquet footers: features, sizes, statistics
    table_lint          findings about problems that recipients would hit
    table_facts         the latest version; which clients can read the table, and why others cannot
    shared_schema       columns of the latest version; filters and hidden columns must match them
    filter_checks, view_checks  the same for grants and row filters, and for the SQL of views
    folder_contents     SKILL.md and MLmodel of folders

These modules change nothing, and send no requests to a server: `deltaic_ops.checks` does.
"""
