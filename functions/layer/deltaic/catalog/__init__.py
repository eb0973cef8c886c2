"""Store shares, tables, recipients and grants in two DynamoDB tables, and read them for requests.

Recipient 7f3c requests the table `orders` in the schema `europe` of the share `Sales`:

    keys            recipient/7f3c + grant/sales, share/sales + table/europe/orders: names in lower case
    reader          both items and the recipient's record, in one BatchGetItem request
    dynamo          the DynamoDB client: retries, paging and translated errors (`aws_errors`)
    attributes      {"S": "s3://lake/orders"} becomes "s3://lake/orders"
    items           the items as frozen structs: Table, Grant, Restrictions (`asset_items`: volumes, skills, models)

`writes` builds the writes of a transaction. `submitted_queries` and `live_queries` store submitted queries,
`limit_counters` counts requests and bytes, and `leases` allows one writer per table. `admin` changes the catalog, and
`credentials` stores what recipients sign in with. `deltaic.sharing` decides what a recipient may do with a table.
This package does not read the logs of tables.

Partition key, sort key and content of the items, first in the Catalog table, then in the Tokens table:

    shares                share/<share>              a share, with the number of its schemas
    share/<share>         schema/<schema>            a schema, with the number of its tables and other entries
    share/<share>         table/<schema>/<table>     a table; volume/, skill/, model/, view/ likewise
    share/<share>         follow/<schema>            the source that a schema follows
    share/<share>         grant/<recipient id>       a grant, for the list of a share's grants
    share/<share>         overlaps                   detects concurrent changes of tables and grants (decision 187)
    overlaps              overlaps                   the same for filtered tables and unfiltered folders of all shares
    recipients            recipient/<recipient>      a recipient
    recipient/<id>        recipient                  a copy of a recipient's limits and properties for endpoints
    recipient/<id>        grant/<share>              a grant, for the list of a recipient's grants
    storages              storage/<storage>          a storage, with the number of entries that use it
    query/<recipient id>  <table id>/<SHA-256>       a submitted query; the sort key `live` lists the unexpired ones
    lease/<SHA-256>       lease                      the lease of the writer of the table at a location
    checkpoint/<SHA-256>  checkpoint                 when the checkpoint function last checked a location
    version/<SHA-256>     version                    the newest version of a location that a notice has reported

    token/<SHA-256>       token                      a token, as the authorizer reads it
    recipient/<id>        token/<token id>           a token in its recipient's list; `tokens` has the list's revision
    recipient/<id>        invitation/<SHA-256>       an invitation
    issuer/<SHA-256>      policy/<SHA-256>           a policy for an issuer's JWTs; policy/<id> in the recipient's list
    client/<client id>    client                     an OAuth client; client/<0-4> in the recipient's list
"""
