"""Change the catalog: shares, schemas, tables, views, volumes, skills, models, recipients, grants and storages."""
