"""Read sources and write Delta tables: files, rows, leases, commits and catalog entries.

One CSV file merged into a table by key, by module:

    locations           source and target exist and are of the right kind, before Spark starts
    file_schemas        the header has the columns of the schema
    sources, malformed  rows in their types by the grammars of typed_texts; rows that do not fit, with file and line
    lease, leased_run   only this job writes the table
    schema_diff         the rows have the table's columns, or the schema may evolve
    merging, writing    one version, at most once for each run id (transactions)
    table_properties    comments, clustering and properties of the target
    catalog_entry       the table is registered after its rows are committed

Nothing here reads dataset files or schedules anything.
"""
