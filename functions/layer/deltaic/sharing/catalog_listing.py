"""List the shares granted to a recipient, their schemas and tables, page by page in lexicographic order."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, TypeVar

from deltaic.catalog.items import NamedItem, Schema, Share, Table
from deltaic.protocol import json_bodies
from deltaic.protocol.continuations import ListingBinding, open_list_token, seal_list_token
from deltaic.protocol.requests import ListRequest
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.sharing.iceberg_clients.table_access import is_offered

PAGE_BYTES: Final = 5_000_000
"""Largest size of a page: less than the 6 MB that Lambda can send without streaming."""

_Item = TypeVar("_Item", bound=NamedItem)


def list_shares(sharing: Sharing, caller: Caller, request: ListRequest) -> bytes:
    """Return a page of the shares that are granted to the caller; empty without grants."""
    read = partial(sharing.catalog_for(caller).list_shares, caller.recipient_id)
    return encode_page(sharing, request, ListingBinding(caller.recipient_id, "shares"), read, _share)


def get_share(sharing: Sharing, caller: Caller, share: str) -> bytes:
    """Return one granted share; raises NotFound."""
    return json_bodies.encode({"share": _share(sharing.catalog_for(caller).get_share(caller.recipient_id, share))})


def list_schemas(sharing: Sharing, caller: Caller, share: str, request: ListRequest) -> bytes:
    """Return a page of the share's schemas; raises NotFound."""
    read = partial(sharing.catalog_for(caller).list_schemas, caller.recipient_id, share)
    return encode_page(sharing, request, ListingBinding(caller.recipient_id, "schemas", share), read, _schema)


def list_tables(sharing: Sharing, caller: Caller, share: str, schema: str, request: ListRequest) -> bytes:
    """Return a page of the schema's tables; raises NotFound."""
    read = partial(sharing.catalog_for(caller).list_tables, caller.recipient_id, share, schema)
    return encode_page(sharing, request, ListingBinding(caller.recipient_id, "tables", share, schema), read, _table)


def list_all_tables(sharing: Sharing, caller: Caller, share: str, request: ListRequest) -> bytes:
    """Return a page of the tables in all schemas of the share; raises NotFound."""
    read = partial(sharing.catalog_for(caller).list_tables, caller.recipient_id, share, None)
    listing = ListingBinding(caller.recipient_id, "all-tables", share)
    return encode_page(sharing, request, listing, read, _table, attrgetter("key_in_share"))


def get_table(sharing: Sharing, caller: Caller, name: RequestedTable, *, serves_iceberg: bool = False) -> bytes:
    """Return one table and the formats in which this recipient can read it; raises NotFound.

    OpenSharing specification, "Get Table". `serves_iceberg`: whether this server has a catalog for Iceberg clients.
    """
    catalog = sharing.catalog_for(caller)
    table = catalog.get_table(caller.recipient_id, name.share, name.schema, name.table).listing_entry
    formats = ["delta"] if table.client_modes else []
    if is_offered(table) and (serves_iceberg or not formats):
        formats.append("iceberg")
    return json_bodies.encode({**_table(table), "format": ",".join(formats)})


def encode_page(  # noqa: PLR0913, PLR0917 -- the request, how to read the items and how to encode them
    sharing: Sharing,
    request: ListRequest,
    listing: ListingBinding,
    read: Callable[[str | None, int], Sequence[_Item]],
    render: Callable[[_Item], Mapping[str, Any]],
    key: Callable[[_Item], str] = attrgetter("key"),
) -> bytes:
    """Return a page of at most `maxResults` items as JSON, and the token of the next page.

    PROTOCOL.md, "maxResults": if it is 0, the page is empty, and its token continues at the same item. A page has fewer
    items if it would exceed PAGE_BYTES. The function reads one more item, to find out whether there is a next page.
    """
    now = sharing.clock()
    after = None
    if request.page_token is not None:
        after = open_list_token(sharing.signer, request.page_token, listing, now=now)
    items = read(after, request.max_results + 1)
    encoded = [json_bodies.encode(render(item)) for item in items[: request.max_results]]
    page = encoded[: max(1, bisect_right([*accumulate(map(len, encoded))], PAGE_BYTES))]
    if len(page) == len(items):
        return json_bodies.listing(page, None)
    last = key(items[len(page) - 1]) if page else after
    return json_bodies.listing(page, seal_list_token(sharing.signer, listing, last, now=now))


def _share(share: Share) -> dict[str, object]:
    return json_bodies.present(
        name=share.name,
        id=share.id,
        displayName=share.display_name,
        comment=share.comment,
        properties=dict(share.properties) or None,
    )


def _schema(schema: Schema) -> dict[str, object]:
    return {"name": schema.name, "share": schema.share}


def _table(table: Table) -> dict[str, object]:
    modes = table.client_modes or table.access_modes
    return json_bodies.present(
        name=table.name,
        schema=table.schema_name,
        share=table.share,
        shareId=table.share_id,
        id=table.id,
        # Only recipients with directory access get the location (PROTOCOL.md: required for `dir`).
        location=table.location if "dir" in modes else None,
        auxiliaryLocations=(list(table.auxiliary_locations) or None) if "dir" in modes else None,
        accessModes=list(modes) or None,
    )
