"""Serves Iceberg's clients, for whom a share is a warehouse, a schema a namespace, and a table is one of Iceberg's.

namespaces        what a recipient sees: shares, their schemas, and of the tables those that are open
opened_table      whether a table is open to such a client of this recipient, and by which access
made_metadata     a table's metadata for one recipient, made where it is not there yet
background_making what takes longer than a client waits: begun by the first who asks, once
loading           the answers about one table: metadata, and how its files are read
remote_signing    which of a reader's requests to the store are signed, and how
"""
