"""Serves Iceberg's clients, for whom a share is a warehouse, a schema a namespace, and a table an Iceberg table.

DuckDB loads the Delta table `europe.orders` of the share `sales` and reads one of its files:

    namespaces          GET namespaces and tables: `europe`, and `orders` because its entry says `iceberg: signed`
    opened_table        whether this recipient may load the table, and by which access to its files
    made_metadata       Iceberg metadata of version 12, made from the log and stored in the server's own bucket
    made_folder         the folder of that metadata, one for each set of rights, and its index of files
    loading             the answer to loadTable: metadata location, metadata, and how requests are signed
    signed_set          the files that may be signed, sealed into a token that the client sends along
    remote_signing      POST .../sign: the file is in the index of version 12, so its GET request is signed

`background_making` starts a function where metadata takes longer than a client waits. `own_metadata` serves tables that
are Iceberg tables already. How Delta becomes Iceberg is in `deltaic.iceberg`; no request writes to a shared table.
"""
