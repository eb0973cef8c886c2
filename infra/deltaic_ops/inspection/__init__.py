"""Inspect tables and folders that are or will be shared, with the operator's credentials.

Modules behind `deltaic lint s3://lake/orders` and the warnings of `deltaic table create`:

    survey              read the Delta log and some Parquet footers: features, sizes, statistics
    table_lint          report problems that recipients of the table would have
    table_facts         describe the latest version, and which clients can read it
    client_limits       describe what clients cannot read, or return wrongly
    shared_schema       read columns; check that row filters and hidden columns match them
    filter_checks, view_checks  check tables and grants, and the SQL of views, before they are stored
    folder_contents     read SKILL.md and MLmodel in folders of skills and models

These modules change nothing, and send no requests to a sharing server; `deltaic_ops.checks` does.
"""
