"""Iceberg metadata for versions of a Delta table, whose data files stay where they are.

Example: version 12 of `orders`, partitioned by `day`, when version 11 already has metadata.

    table_version     the input: metadata and live files of version 12, and the context that reads and writes
    table_schema      columns with field ids, partitions, name mapping; refuses tables that Iceberg clients misread
    live_files        each live file with its digest, among them two files that version 11 did not have
    column_bounds     their statistics as Iceberg bounds; `data_footers` counts rows that the log does not record
    manifests         a new manifest (`avro`) of the two files; `puffin` writes their deletion vectors
    generation        a manifest list: the manifests of version 11 whose files are all live, and the new manifest
    file_index        manifests, versions and files: version 13 starts from it, and signing finds files in it
    table_document    Iceberg's metadata.json with the versions that the index lists

A manifest has a thousand files and is named by its content. So a commit writes only a few manifests, and reuses the
others. This package does not know AWS or recipients: the context does.
"""
