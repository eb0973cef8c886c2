"""Change the catalog: shares, schemas, tables, views, volumes, skills, models, recipients, grants and storages.

`admin.tables.create("sales", "europe", "orders", "s3://lake/orders")`, from the call to one transaction:

    catalog_admin   one admin object for each type of entry; `admin.tables` is a `TableAdmin`
    table_admin     validates the name, the location and the settings, and builds the table entry
    filter_rules    rejects a folder that would expose files of a filtered table
    entry_admin     builds the writes: a new item, and the entry counts of its schema and its storage
    records         writes everything or nothing; repeats the check after a concurrent change

Volumes and skills (`folder_admin`) and models (`model_admin`) use `entry_admin` too. `view_admin` adds SQL to a table
entry, and `view_partitions` and `view_requests` store the state of refreshes. `follow_admin` stores followed sources.
`table_locations` lists tables for scheduled functions. No module here reads a table's log or a file: callers pass a
function (`validate`) that compares filters with the table.
"""
