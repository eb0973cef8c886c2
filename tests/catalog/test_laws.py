"""Properties of listings, for any valid names and any page size."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.protocol import names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import tries

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog.conftest import Catalog
    from deltaic.catalog.items import Share, Table

_Item = TypeVar("_Item")

# Names for edge cases of the key order: neighbors of separators, Unicode of every width, maximal length.
CHARACTERS = st.sampled_from(list("aAzZ09_-!:~%+=,\u00e4\u00c4\u0130\u4e2d\uffee\U0001f600"))
NAMES = st.one_of(
    st.text(CHARACTERS, min_size=1, max_size=4),
    st.builds(lambda end: "\U0001f600" * 240 + end, st.text(CHARACTERS, min_size=1, max_size=3)),
)
FEW = settings(
    max_examples=tries(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def unique(spellings: list[str]) -> list[str]:
    """Return one spelling of each name."""
    return list({names.key(spelling): spelling for spelling in spellings}.values())


@FEW
@given(st.lists(NAMES, min_size=1, max_size=6), st.lists(NAMES, min_size=1, max_size=2), st.integers(1, 8))
def test_pages_of_tables_contain_every_table_in_order(
    catalog: Catalog, tables: list[str], schemas: list[str], size: int
) -> None:
    share, alice = create_granted_share(catalog)
    expected = {}
    for schema in unique(schemas):
        catalog.admin.schemas.create(share, schema)
        for table in unique(tables):
            created = catalog.admin.tables.create(share, schema, table, "s3://bucket/x")
            expected[f"{keys.segment(schema)}/{keys.segment(table)}"] = created
    ordered = [expected[key] for key in sorted(expected)]

    def read(after: str | None) -> list[Table]:
        return catalog.reader.list_tables(alice, share, None, after, size)

    assert pages(read, lambda table: table.key_in_share, size) == ordered
    assert list(catalog.admin.tables.list(share)) == ordered
    for schema in unique(schemas):
        inside = [table for table in ordered if names.key(table.schema_name) == names.key(schema)]

        def read_schema(after: str | None, schema: str = schema) -> list[Table]:
            return catalog.reader.list_tables(alice, share, names.key(schema), after, size)

        assert pages(read_schema, lambda table: table.key, size) == inside


@FEW
@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(1, 7), st.data())
def test_pages_of_shares_are_complete_despite_revocations(
    catalog: Catalog, spellings: list[str], size: int, data: st.DataObject
) -> None:
    alice = catalog.admin.recipients.create(uuid4().hex)
    prefix = uuid4().hex[:6]
    created = {}
    for name in unique(spellings):
        share = catalog.admin.shares.create(f"{prefix}{name}")
        created[keys.segment(share.name)] = share
        catalog.admin.grants.create(alice.name, share.name)
    ordered = [created[key] for key in sorted(created)]
    revoked = data.draw(st.sampled_from(ordered))
    is_revoked = False

    def read(after: str | None) -> list[Share]:
        nonlocal is_revoked
        page = catalog.reader.list_shares(alice.id, after, size)
        if not is_revoked and revoked in page:  # the last share of a page is revoked before the next request
            is_revoked = True
            catalog.admin.grants.revoke(alice.name, revoked.name)
        return page

    assert pages(read, lambda share: share.key, size) == ordered
    remaining = [share for share in ordered if share != revoked]
    assert (
        pages(lambda after: catalog.reader.list_shares(alice.id, after, size), lambda share: share.key, size)
        == remaining
    )


@FEW
@given(NAMES, NAMES, NAMES)
def test_name_is_found_in_any_case_and_returned_as_written(
    catalog: Catalog, share: str, schema: str, table: str
) -> None:
    share = uuid4().hex[:8] + share
    catalog.admin.shares.create(share)
    catalog.admin.schemas.create(share, schema)
    catalog.admin.tables.create(share, schema, table, "s3://bucket/x")
    alice = catalog.admin.recipients.create(uuid4().hex)
    catalog.admin.grants.create(alice.name, share)
    lower_names = [names.key(name) for name in (share, schema, table)]
    result = catalog.reader.get_table(alice.id, *lower_names).table
    assert (result.share, result.schema_name, result.name) == (share, schema, table)


def create_granted_share(catalog: Catalog) -> tuple[str, str]:
    """Create a share with a grant; return the share's name and the recipient's id."""
    share, recipient = uuid4().hex, uuid4().hex
    catalog.admin.shares.create(share)
    alice = catalog.admin.recipients.create(recipient)
    catalog.admin.grants.create(recipient, share)
    return share, alice.id


def pages(read: Callable[[str | None], list[_Item]], key: Callable[[_Item], str], size: int) -> list[_Item]:
    """Read all pages, each after the last item's key, until a page is not full."""
    items: list[_Item] = []
    after = None
    while True:
        page = read(after)
        assert len(page) <= size
        items += page
        if len(page) < size:
            return items
        after = key(page[-1])
