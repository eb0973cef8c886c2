"""Commands for shares, schemas, tables, views, folders of files and storages.

`deltaic table create s.d.orders --location s3://lake/orders`:

    table               the command: options, help, examples
    ..operator          opens the catalog that the command changes, and prints results
    ..value_parsers     parses names, durations and key=value pairs
    (catalog.admin)     checks the catalog entry and writes it

Each module contains the commands of one noun. `folders` has what volumes, skills and models have in common, `follow`
shares all tables of a folder or Glue database. Checks of Delta logs are in `deltaic_ops.inspection`.
"""
