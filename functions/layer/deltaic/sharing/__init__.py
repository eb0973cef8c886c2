"""Use cases of the server: decide what a recipient may read, and build the answer of each endpoint.

`POST .../tables/orders/query` with `{"limitHint": 10}`, from the parsed request to its lines:

    query             answers at once, or calls `submissions` (asyncQuery)
    context           the granted table with its storage, its gate and the recipient's rights (`rights`)
    snapshots         the requested version of the log, and the response format
    snapshot_query    plans the answer: pruning hints, row filter, limit, where a page starts
    head_lines        the protocol and metaData lines
    page              selects the files that fit the limit and the page
    lines             the files as signed NDJSON lines
    answer            the chunks, the version, and the last line of an answer that fails midway

`change_feed` answers ranges of versions, `folders` volumes, skills and models, `iceberg_clients` Iceberg's REST
catalog; `catalog_listing` and `metadata` answer the small requests. `audit_record` collects the facts for the access
log. HTTP is in `deltaic.http`, the catalog's storage in `deltaic.catalog`, and the log reader in `deltaic.delta`.
"""
