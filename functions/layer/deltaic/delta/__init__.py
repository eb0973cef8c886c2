"""Reads a Delta log: which files make a version of a table, and which changes lie between two versions.

Version 12 of a table with a checkpoint at 10, from the listing of `_delta_log/` to its live files:

    paths, segment      10.checkpoint.parquet, 11.json, 12.json: the newest complete checkpoint and the commits after it
    commits, actions    the actions of 11 and 12: an add, a remove, a metaData
    replay              the newest mention of each file wins: the add of b.parquet, the remove of a.parquet
    checkpoint, scan    the adds of the checkpoint, row group by row group, without a.parquet
    snapshot            protocol, metadata, totals, and the live files as Arrow batches, filtered by a `file_filter`

`cache` turns a cached snapshot into the next one by reading the new commits alone, and `checksum` answers what `N.crc`
proves. Change feeds start at `commit_changes`, time travel at `history`. `features` refuses tables that cannot be read
here. The package imports no AWS code: a `store` is passed in. It knows nothing of recipients, hints or the wire.
"""
