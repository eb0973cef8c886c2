"""Generate Iceberg metadata for versions of a Delta table, without copying its data files.

Example: modules that add version 12 of `orders`, partitioned by `day`, after version 11.

    table_version     the input: metadata and live files of version 12, and the context that reads and writes
    table_schema      columns with field ids, partitions, name mapping; rejects tables that Iceberg clients misread
    live_files        the version's files (live files) with their digests; two of them are new in version 12
    column_bounds     statistics of the two files as Iceberg bounds; `data_footers` counts rows without statistics
    manifests         a new manifest (`avro`) of the two files; `puffin` writes their deletion vectors
    generation        a manifest list: the manifests of version 11 whose files are all live, and the new manifest
    file_index        index of manifests, versions and files, for adding version 13 and for signing file URLs
    table_document    Iceberg's metadata.json with the versions in the index

A manifest lists up to a thousand files, and its name is a hash of its content. So a new version writes only a few
manifests, and reuses the others. This package does not depend on AWS or recipients: `MetadataContext` does.
"""
