"""The use cases: what a recipient may see, and what each endpoint answers.

`POST .../tables/orders/query` with `{"limitHint": 10}`, from the parsed request to its lines:

    query             answers at once, or hands over to `submissions` (asyncQuery)
    context           the granted table with its storage, its gate and the recipient's rights (`rights`)
    snapshots         the version of the log that is asked for, and the response format
    snapshot_query    plans the answer: pruning hints, row filter, limit, where a page starts
    head_lines        the protocol and metaData lines
    page              which files fit the limit and the page
    lines             the files as signed NDJSON lines
    answer            the chunks, the version, and the last line if the answer breaks off

`change_feed` answers ranges of versions, `folders` volumes, skills and models, `iceberg_clients` Iceberg's REST
catalog; `listing` and `metadata` answer the small requests. `audit_record` collects what the access log
says. HTTP is not known here (`deltaic.http`), nor how entries are stored (`deltaic.catalog`) or logs are read
(`deltaic.delta`).
"""
