"""Validate the SQL of a view before it is stored: it can read only shared tables and existing columns."""

from collections.abc import Callable

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError
from deltaic_pipeline.view_refresh.catalog_session import source_table
from deltaic_pipeline.view_refresh.view_sql import SOURCE, ViewSql, read_sql, refuse_unknown_columns

from deltaic_ops.inspection.shared_schema import SchemaReader


def validate_sql(admin: CatalogAdmin, schemas: Callable[[], SchemaReader], sql: str, source: Table) -> ViewSql:
    """Parse and validate the SQL of a view; raises InvalidParameter, and NotFound for tables not shared."""
    source_name = source.title
    parsed = read_sql(sql, source_name)
    tables = {SOURCE: source}
    for name in parsed.tables:
        source_table(admin, name)
        tables[name.lower()] = admin.views.source(name)
    try:
        columns = {name: schemas().read(table).columns for name, table in tables.items()}
    except DeltaicError:  # the stack's jobs may have permissions that the operator does not have
        return parsed
    refuse_unknown_columns(sql, source_name, columns)
    return parsed
