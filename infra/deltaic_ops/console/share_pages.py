"""The pages of what is shared, a level and a page at a time: shares, their holders, schemas, tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Grant, NamedItem, Table
from deltaic.protocol.names import split_table_name
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.background_jobs import FRESH_SECONDS
from deltaic_ops.console.console_context import Desk, Handler, listed
from deltaic_ops.usage.plots import steps
from deltaic_ops.usage.usage_report import amount

_NAME: Final[Callable[[NamedItem], str]] = attrgetter("name")
_KINDS: Final = ("table", "volume", "skill", "model")


def shares(desk: Desk, request: Request) -> Response:
    """Show the shares."""
    return desk.page(request, "shares.html", shares=listed(request, desk.provider.admin.shares.list, _NAME))


def share(desk: Desk, request: Request) -> Response:
    """Show the schemas of a share."""
    admin = desk.provider.admin
    found = admin.shares.get(request.query_params.get("share", ""))
    schemas = listed(request, lambda excerpt: admin.schemas.list(found.name, excerpt), _NAME)
    return desk.page(request, "share.html", share=found, schemas=schemas)


def holders(desk: Desk, request: Request) -> Response:
    """Show who holds a share."""
    admin = desk.provider.admin
    found = admin.shares.get(request.query_params.get("share", ""))

    def held(excerpt: Excerpt) -> Iterator[Grant]:
        return admin.grants.of_share(found.name, excerpt)

    grants = listed(request, held, lambda grant: grant.recipient_id)
    return desk.page(request, "holders.html", share=found, grants=grants)


def schema(desk: Desk, request: Request) -> Response:
    """Show what is in a schema, of one kind at a time."""
    admin, asked = desk.provider.admin, request.query_params
    found = admin.schemas.get(asked.get("share", ""), asked.get("schema", ""))
    kind = asked.get("kind", "")
    kind = kind if kind in _KINDS else _KINDS[0]
    entries: Callable[[str, str, Excerpt], Iterable[Any]] = getattr(admin, f"{kind}s").list
    there = listed(request, lambda excerpt: entries(found.share, found.name, excerpt), _NAME)
    return desk.page(request, "schema.html", schema=found, kinds=_KINDS, kind=kind, there=there)


_PARTITIONS: Final = 500
"""That are shown."""


@dataclass(frozen=True, slots=True)
class _Latest:
    look: Any
    comments: dict[str, str]


def table(desk: Desk, request: Request) -> Response:
    """Show a table's entry, and what its log says of its latest version."""
    found = table_of(desk, request)

    def look(_: object) -> _Latest | None:
        from deltaic_ops.console.table_log import comments
        from deltaic_ops.inspection.table_facts import facts_of

        if found.format == "iceberg":
            desk.provider.schemas().check_iceberg(found)
            return None
        return desk.provider.schemas().look(
            found.location,
            found.storage,
            lambda latest: _Latest(facts_of(latest, found), comments(latest.metadata)),
        )

    key = ("table", found.id)
    work = desk.works.begun(key, f"Reading the log of {found.title}", look, older=FRESH_SECONDS)
    is_done, latest, trouble = desk.beside(work, key)
    shown = {"table": found, "name": found.title, "latest": latest, "trouble": trouble, "is_done": is_done}
    return desk.page(request, "table.html", refresh="" if is_done else "1", **shown)


def versions(desk: Desk, request: Request) -> Response:
    """Show how large a table's versions are and were."""
    found = table_of(desk, request)

    def read(_: object) -> Any:
        from deltaic_ops.console.table_log import versions

        return desk.provider.schemas().in_store(found.location, found.storage, versions)

    def show(told: Any) -> Response:
        sizes = steps("Size", [(one.at, one.size.bytes, f"version {one.number}") for one in told], amount)
        rows = steps("Rows", [(one.at, one.size.rows, f"version {one.number}") for one in told], "{:,.0f}".format)
        untold = any(one.size.untold for one in told)
        return desk.page(
            request, "versions.html", name=found.title, versions=told[::-1], sizes=sizes, rows=rows, untold=untold
        )

    return desk.found_out(request, ("versions", found.id), f"Reading the versions of {found.title}", read, show)


def partitions(desk: Desk, request: Request) -> Response:
    """Show how a table's files lie in partitions."""
    found = table_of(desk, request)

    def read(_: object) -> Any:
        from deltaic_ops.console.table_log import partitions

        return desk.provider.schemas().look(
            found.location,
            found.storage,
            lambda latest: (latest.version, latest.metadata.partition_columns, partitions(latest)),
        )

    def show(told: Any) -> Response:
        version, names, sizes = told
        shown = list(sizes.items())[:_PARTITIONS]
        return desk.page(
            request,
            "partitions.html",
            name=found.title,
            version=version,
            columns=names,
            partitions=shown,
            more=len(sizes) - len(shown),
        )

    return desk.found_out(request, ("partitions", found.id), f"Reading the partitions of {found.title}", read, show)


def table_of(desk: Desk, request: Request) -> Table:
    """Return the table that a request names; raises NotFound, InvalidParameter."""
    return desk.provider.admin.tables.get(*split_table_name(request.query_params.get("table", "")))


ROUTES: Final[dict[str, Handler]] = {
    "/shares": shares,
    "/share": share,
    "/holders": holders,
    "/schema": schema,
    "/table": table,
    "/versions": versions,
    "/partitions": partitions,
}
