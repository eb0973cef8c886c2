"""View of a recipient's tables, whose first rows need few requests for any number of grants."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from catalog.large_catalog import Size, recipient_name, share_name, write
from catalog.large_catalog import catalog as entries
from deltaic_ops.rights.recipient_view import VisibleTable, visible_entries

if TYPE_CHECKING:
    from catalog.conftest import Catalog

SIZE = Size(shares=40, recipients=2, tables=160)


def test_first_tables_are_found_without_reading_all_shares(catalog: Catalog) -> None:
    write(catalog.dynamo.client, catalog.catalog_table, entries(SIZE))
    holder = catalog.admin.recipients.get(recipient_name(0))
    assert len([*catalog.admin.grants.of_recipient(holder.name)]) == SIZE.shares
    requests: list[str] = []
    events: Any = catalog.dynamo.client.meta.events

    def count(request: Any, **_: Any) -> None:
        requests.append(request.headers["X-Amz-Target"])

    events.register("before-send.dynamodb", count)
    try:
        visible = list(islice(visible_entries(catalog.admin, catalog.reader, holder), 6))
    finally:
        events.unregister("before-send.dynamodb", count)
    shares = [entry.table.share for entry in visible if isinstance(entry, VisibleTable)]
    assert shares == [*[share_name(0)] * 4, share_name(1)]
    assert len(requests) < SIZE.shares
