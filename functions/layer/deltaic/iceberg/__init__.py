"""Writes Iceberg metadata for versions of a Delta table, whose data files stay where they are.

Version 12 of `orders`, partitioned by `day`, after version 11 had metadata already:

    table_version     what is handed in: the metadata and live files of version 12, and where to read and put
    table_schema      columns with field ids, partitions, name mapping; refuses what Iceberg clients would misread
    live_files        each live file by its digest; the two files that version 11 did not have
    column_bounds     their statistics as Iceberg bounds (`data_footers` counts rows that the log does not tell)
    manifests         a new manifest of the two files in `avro`; `puffin` holds their deletion vectors
    generation        the manifests of version 11 whose files are all live, the new one, and a list of them
    file_index        what was made and of which files: version 13 starts from it, signing looks files up in it
    table_document    the table as Iceberg's metadata.json has it, with the versions that the index lists

Manifests hold a thousand files each and are named by their content, so a commit makes a few of them anew and all others
stay. Nothing here knows AWS or recipients; reading and putting are handed in.
"""
