"""Read sources and write Delta tables: files, rows, leases, commits and catalog entries.

One CSV file merged into a table by key, by module:

    location_checks     before Spark starts: source and target exist and are of the right kind
    file_schemas        the header has the columns of the schema
    sources             read rows in their types, by the grammars of typed_texts
    malformed_rows      rows that do not fit the schema, with file and line
    lease, leased_run   only this job writes the table
    schema_diff         the rows have the table's columns, or the schema may evolve
    merging, writing    one version, at most once for each run id (transactions)
    table_properties    comments, clustering and properties of the target
    catalog_entry       the table is registered after its rows are committed

Nothing here reads dataset files or schedules anything.
"""
