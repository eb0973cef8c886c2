"""The pages of a table: its entry and latest version, its versions, its partitions."""

from dataclasses import dataclass
from typing import Any, Final

from deltaic.catalog.items import Table
from deltaic.protocol.names import split_table_name
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.desk import Desk, Handler
from deltaic_ops.console.works import FRESH_SECONDS
from deltaic_ops.usage.plots import steps
from deltaic_ops.usage.usage_report import amount

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
        from deltaic_ops.inspection.table_look import look_of

        if found.format == "iceberg":
            desk.provider.schemas().check_iceberg(found)
            return None
        return desk.provider.schemas().look(
            found.location,
            found.storage,
            lambda latest: _Latest(look_of(latest, found), comments(latest.metadata)),
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


ROUTES: Final[dict[str, Handler]] = {"/table": table, "/versions": versions, "/partitions": partitions}
