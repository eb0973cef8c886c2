"""Use cases of the server: decide what a recipient may read, and build the response of each endpoint.

`POST .../tables/orders/query` with `{"limitHint": 10}`, from the parsed request to the lines of the response:

    query             responds at once, or stores the query for later with `submissions` (asyncQuery)
    context           finds the granted table, its storage, its shared versions and the recipient's rights (`rights`)
    snapshots         reads the requested version from the Delta log, and negotiates the response format
    snapshot_query    plans the response: pruning hints, row filter, limit, and the first file of the page
    head_lines        renders the protocol and metaData lines
    page              selects the files within the row limit and the page size
    lines             renders the files as NDJSON lines with signed URLs
    answer            the response in chunks, and the last line of a response that fails midway

`change_feed` serves ranges of versions, `folders` serves volumes, skills and models, and `iceberg_clients` serves the
Iceberg REST catalog. `iceberg_tables` opens tables that are already in Iceberg format, whose metadata
`native_metadata` finds. `catalog_listing` lists shares and tables; `metadata` returns a table's version and metadata.
`audit_record` collects what the access log records. `deltaic.http` handles HTTP, `deltaic.catalog` stores the catalog,
and `deltaic.delta` reads the Delta log.
"""
