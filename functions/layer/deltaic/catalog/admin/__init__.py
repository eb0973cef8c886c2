"""Change the catalog: shares, schemas, tables, views, volumes, skills, models, recipients, grants and storages.

`admin.tables.create("sales", "europe", "orders", "s3://lake/orders")`, from the call to one transaction:

    catalog_admin   one admin for each kind of entry; `admin.tables` is a `TableAdmin`
    table_admin     checks the name, the location and the settings, and builds the entry
    filter_rules    refuses a folder that would expose files of a filtered table
    entry_admin     the writes: a new item, and the counts of its schema and its storage
    records         writes all or nothing; repeats the check after a concurrent change

Tables, volumes and skills (`folder_admin`) and models (`model_admin`) share `entry_admin`. `view_admin` adds SQL to a
table entry, `view_partitions` and `view_requests` store the state of refreshes. `follow_admin` stores followed sources.
`table_locations` lists tables for scheduled functions. No module here reads a table's log or a file: callers compare
filters with tables (`validate`).
"""
