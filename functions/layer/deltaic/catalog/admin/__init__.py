"""Changes the catalog: shares, schemas, tables, views, volumes, skills, models, recipients, grants and storages.

`admin.tables.create("sales", "europe", "orders", "s3://lake/orders")`, from the call to one transaction:

    catalog_admin   one admin for each kind of entry; `admin.tables` is a `TableAdmin`
    tables          checks the name, the location and the settings, and builds the entry
    filter_rules    refuses a folder that would open a table of which not all is shared
    entries         the writes: a new item, the counts of its schema and its storage
    records         makes all writes or none; repeats them if the check was overtaken by another change

`entries` is shared by tables, volumes and skills (`folder_admin`) and models (`model_admin`). `views` adds SQL to a
table entry, `view_partitions` and `view_requests` keep what its refreshes need. `follows` enters what a folder or a
database holds. `table_places` lists tables for scheduled functions. Nothing here reads a table's log or a file:
whether a filter fits a table is checked by the caller (`fit`).
"""
