"""Read a Delta log: the files of a table version, and the changes between two versions.

Example: read version 12 of a table with a checkpoint at version 10.

    paths, segment      list `_delta_log/`: the newest complete checkpoint and the commits after it, 11.json and 12.json
    commits, actions    decode the actions of commits 11 and 12: an add, a remove, a metaData
    replay              reconcile them; the newest action of each file wins: b.parquet is added, a.parquet is removed
    checkpoint, scan    read the `add` actions of the checkpoint, row group by row group, without a.parquet
    snapshot            return protocol, metadata, totals, and the live files as Arrow batches (see `file_filter`)

`cache` derives the next snapshot from a cached one by reading only the new commits. `checksum` reads protocol, metadata
and totals from `N.crc`. `commit_changes` reads change feeds, `history` finds versions by time. `features` rejects
tables that this server cannot read. The package imports no AWS code: callers pass in a `store`. It does not depend on
recipients, hints or the protocol.
"""
