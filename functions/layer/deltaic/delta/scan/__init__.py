"""Read a checkpoint's files as Arrow batches, with as few bytes as possible.

Example: a query for `region = 'EU'` over a checkpoint of two row groups.

    parquet_file        reads the footer of the part, with one request
    part_summary        shows that row group 1 contains only `US`, so it is not fetched
    partition_codes     encodes row group 2: each combination of partition values once, and a code for each row
    row_selection       selects the rows whose partition values and typed statistics pass the filter
    parquet_scan        reads the other columns, only if a row was selected
    add_rows            returns these rows in the schema of `file_batches`, whatever types the writer used

`row_group_cache` keeps decoded row groups between requests, `filter_cache` the rows that a filter selected.
`file_order` defines the order of files and the position of a page. `deltaic.delta` interprets the rows.
"""
