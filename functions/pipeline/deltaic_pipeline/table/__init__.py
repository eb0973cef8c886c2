"""Read sources and write Delta tables: files, rows, leases, commits and catalog entries.

One CSV file merged into a table by key, by module:

    location_checks     check before Spark starts that source and target exist
    file_schemas        check that the file's header has the columns of the schema
    sources             read the rows, with values parsed by the grammars of typed_texts
    malformed_rows      flag rows that do not fit the schema, with file and line
    lease, leased_run   ensure that only this job writes the table
    schema_diff         compare the columns of rows and table, unless the schema may evolve
    merging, writing    write one version, at most once for each run id (transactions)
    table_properties    set comments, clustering and properties of the table
    catalog_entry       create the catalog entry after the rows are committed

This package does not read dataset files and does not schedule jobs.
"""
