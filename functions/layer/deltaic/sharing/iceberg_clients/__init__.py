"""Serve Iceberg clients: a share is a warehouse, a schema is a namespace.

DuckDB loads the Delta table `europe.orders` of the share `sales` and reads one of its files:

    namespaces          lists namespaces and tables: `europe`, and `orders` (its catalog entry has `iceberg: signed`)
    table_access        checks that this recipient may load the table, and how it may read the files
    recipient_metadata  generates Iceberg metadata of version 12 from the Delta log, in the server's bucket
    metadata_folder     finds the folder of that metadata, one for each set of rights, and its index of files
    load_table          responds to loadTable: metadata location, metadata, and how requests are signed
    signed_set          stores the set of readable files in a token that the client sends with each request
    remote_signing      POST .../sign: signs the GET request if the index of version 12 lists the file

`background_generation` starts a Lambda function if the metadata takes longer than a client waits. `deltaic.iceberg`
converts Delta metadata. No request writes to a shared table.
"""
