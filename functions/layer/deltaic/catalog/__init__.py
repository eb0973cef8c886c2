"""Stores shares, schemas, tables, recipients and grants in two DynamoDB tables, and reads them for requests.

Recipient 7f3c asks for the table `orders` in the schema `europe` of the share `Sales`:

    keys            recipient/7f3c + grant/sales, share/sales + table/europe/orders: names in lower case
    reader          both items and the recipient's record, by one BatchGetItem
    dynamo          the connection: retries, paging, and AWS's errors as the errors of the product (`aws_errors`)
    attributes      {"S": "s3://lake/orders"} becomes "s3://lake/orders"
    items           the items as frozen values: Table, Grant, Restrictions (`asset_items`: volumes, skills, models)

`writes` spells the writes of a transaction. `queries` and `live_queries` keep submitted queries, `limit_counters`
counts requests and bytes, `leases` decides who may write a table. `admin` changes the catalog, `credentials` stores
what recipients sign in with. What a recipient may do with an entry is decided in `deltaic.sharing`; no table log is
read here.

The Catalog table, by partition key and sort key, and then the Tokens table:

    shares                share/<share>              a share, with the count of its schemas
    share/<share>         schema/<schema>            a schema, with the count of its entries
    share/<share>         table/<schema>/<table>     a table; volume/, skill/, model/, view/ likewise
    share/<share>         follow/<schema>            what a schema follows
    share/<share>         grant/<recipient id>       a grant, seen from the share
    share/<share>         overlaps                   counts that make a check of folders repeatable (decision 187)
    overlaps              overlaps                   the revision of entries that are shared by folder or in part
    recipients            recipient/<recipient>      a recipient
    recipient/<id>        recipient                  what endpoints read of a recipient
    recipient/<id>        grant/<share>              a grant, seen from the recipient
    storages              storage/<storage>          a storage, with the count of entries that use it
    query/<recipient id>  <table id>/<SHA-256>       a submitted query; `live` counts them
    lease/<SHA-256>       lease                      who writes to the table at a location
    checkpoint/<SHA-256>  checkpoint                 when a location was last checked for a checkpoint
    version/<SHA-256>     version                    the last known version at a location

    token/<SHA-256>       token                      a token, as the authorizer reads it
    recipient/<id>        token/<token id>           a token, in its recipient's list; `tokens` is its revision
    recipient/<id>        invitation/<SHA-256>       an invitation
    issuer/<SHA-256>      policy/<SHA-256>           a policy on the JWTs of an issuer; policy/<id> in the list
    client/<client id>    client                     a client, with the hash of its secret; client/<0-4> in the list
"""
