"""Commands that manage shared objects: shares, schemas, tables, views, folders and storages."""
