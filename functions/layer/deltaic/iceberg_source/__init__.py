"""Read an Iceberg table as versions of a Delta table: schema, live files with statistics, and deletion vectors.

Example: read the snapshot with sequence number 12.

    source_metadata   decode `metadata.json`: the snapshots of `main`, schemas, partition specs
    delta_schema      translate the schema; decide whether column names or field ids select columns in files
    manifest_files    read the manifest list and the manifests; return batches of FILE_SCHEMA
    manifest_entries  decode the entries of a manifest together, into Arrow arrays
    file_statistics   convert bounds and counts of each file to Delta's statistics
    delete_files      convert position deletes and Puffin blobs to deletion vectors
    source_snapshot   return the metadata, totals and live files of a snapshot
    source_log        find the snapshot of a version or time; list the files that each snapshot adds or drops

The log and the snapshots are those of `deltaic.delta` with another source, and import no AWS code. What Delta
clients would misread is refused by name (UnsupportedOperation).
"""
