"""Store shares, tables, recipients and grants in two DynamoDB tables, and read them for requests.

Recipient 7f3c requests the table `orders` in the schema `europe` of the share `Sales`:

    keys            recipient/7f3c + grant/sales, share/sales + table/europe/orders: names in lower case
    reader          both items and the recipient's record, by one BatchGetItem
    dynamo          the connection: retries, paging and translated errors (`aws_errors`)
    attributes      {"S": "s3://lake/orders"} becomes "s3://lake/orders"
    items           the items as frozen values: Table, Grant, Restrictions (`asset_items`: volumes, skills, models)

`writes` builds the writes of a transaction. `submitted_queries` and `live_queries` store submitted queries,
`limit_counters` counts requests and bytes, and `leases` allows one writer per table. `admin` changes the catalog, and
`credentials` stores what recipients sign in with. `deltaic.sharing` decides what a recipient may do with an entry.
This package reads no table log.

The Catalog table, by partition key and sort key, and then the Tokens table:

    shares                share/<share>              a share, with the count of its schemas
    share/<share>         schema/<schema>            a schema, with the count of its entries
    share/<share>         table/<schema>/<table>     a table; volume/, skill/, model/, view/ likewise
    share/<share>         follow/<schema>            the source that a schema follows
    share/<share>         grant/<recipient id>       a grant, listed by share
    share/<share>         overlaps                   counts for the check of overlapping folders (decision 187)
    overlaps              overlaps                   the revision of filtered tables and unfiltered folders
    recipients            recipient/<recipient>      a recipient
    recipient/<id>        recipient                  a copy of a recipient's limits and properties for endpoints
    recipient/<id>        grant/<share>              a grant, listed by recipient
    storages              storage/<storage>          a storage, with the count of entries that use it
    query/<recipient id>  <table id>/<SHA-256>       a submitted query; `live` counts them
    lease/<SHA-256>       lease                      the writer of the table at a location
    checkpoint/<SHA-256>  checkpoint                 when a location was last checked for a checkpoint
    version/<SHA-256>     version                    the newest reported version at a location

    token/<SHA-256>       token                      a token, as the authorizer reads it
    recipient/<id>        token/<token id>           a token, in its recipient's list; `tokens` is its revision
    recipient/<id>        invitation/<SHA-256>       an invitation
    issuer/<SHA-256>      policy/<SHA-256>           a policy on the JWTs of an issuer; policy/<id> in the list
    client/<client id>    client                     a client, with the hash of its secret; client/<0-4> in the list
"""
