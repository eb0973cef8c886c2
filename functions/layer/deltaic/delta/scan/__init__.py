"""Reads the files of a checkpoint as Arrow batches, reading as few bytes as a filter allows.

A query for `region = 'EU'` over a checkpoint of two row groups:

    parquet_file        the footer of the part, by one request
    part_summary        row group 1 holds only `US`: it is not fetched
    partition_codes     row group 2: each combination of partition values once, and a code for each row
    row_selection       the rows whose partition values and typed statistics pass the filter
    parquet_scan        the other columns, only if a row was selected
    add_rows            these rows in the schema of `file_batches`, whatever types the writer chose

`row_group_cache` keeps decoded row groups between requests, `filter_cache` the rows that a filter selected. `order`
defines the order of files and where a page continues. What a row means is decided by `deltaic.delta`, not here.
"""
