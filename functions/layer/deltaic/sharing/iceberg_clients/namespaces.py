"""List schemas as Iceberg namespaces, and the tables that Iceberg clients can load."""

from typing import Final

from deltaic.protocol import iceberg_bodies
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.sharing.iceberg_clients.table_access import check_open, is_offered

_ALL: Final = 100_000
"""Page size above every share's size: Iceberg clients read only one page unless they request pages."""


def configuration(sharing: Sharing, caller: Caller, share: str) -> bytes:
    """Return the Iceberg catalog configuration of a share; raises NotFound."""
    return iceberg_bodies.config(sharing.catalog_for(caller).get_share(caller.recipient_id, share).name)


def list_namespaces(sharing: Sharing, caller: Caller, share: str) -> bytes:
    """Return the schemas of a share as Iceberg namespaces; raises NotFound."""
    schemas = sharing.catalog_for(caller).list_schemas(caller.recipient_id, share, None, _ALL)
    return iceberg_bodies.namespaces(schema.name for schema in schemas)


def get_namespace(sharing: Sharing, caller: Caller, share: str, schema: str) -> bytes:
    """Return one schema as an Iceberg namespace; raises NotFound."""
    sharing.catalog_for(caller).list_tables(caller.recipient_id, share, schema, None, 1)
    return iceberg_bodies.namespace(schema)


def list_open_tables(sharing: Sharing, caller: Caller, share: str, schema: str) -> bytes:
    """Return the tables of a schema that Iceberg clients can load; raises NotFound."""
    tables = sharing.catalog_for(caller).list_tables(caller.recipient_id, share, schema, None, _ALL)
    return iceberg_bodies.tables(schema, (table.name for table in tables if is_offered(table)))


def check_table(sharing: Sharing, caller: Caller, name: RequestedTable) -> None:
    """Raise NotFound for a table that does not exist or is not open to Iceberg clients, without reading its log."""
    check_open(sharing.table(caller, name))
