"""Commands for shares, schemas, tables, views, folders and storages.

`deltaic table create s.d.orders --location s3://lake/orders`:

    table               the command: options, help, examples
    ..operator          opens the catalog that the command changes, and prints results
    ..words             parses names, durations and key=value pairs
    (catalog.admin)     checks the entry and writes it

Each module is one noun of the command line. `folders` serves volumes, skills and models alike, `follow` adds the
tables of a folder or Glue database. Checks of logs are in
`deltaic_ops.inspection`; nothing here accesses DynamoDB directly.
"""
