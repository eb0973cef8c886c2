"""Pages of shares, and of their recipients, schemas and tables."""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Grant, NamedItem, Table
from deltaic.protocol.names import split_table_name
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.background_jobs import MAX_AGE_SECONDS
from deltaic_ops.console.console_context import ConsoleContext, Handler, list_page
from deltaic_ops.usage.plots import steps
from deltaic_ops.usage.usage_report import amount

_NAME: Final[Callable[[NamedItem], str]] = attrgetter("name")
_KINDS: Final = ("table", "volume", "skill", "model")


def shares(context: ConsoleContext, request: Request) -> Response:
    """Show one page of the list of shares."""
    return context.page(request, "shares.html", shares=list_page(request, context.provider.admin.shares.list, _NAME))


def share(context: ConsoleContext, request: Request) -> Response:
    """Show the schemas of a share."""
    admin = context.provider.admin
    entry = admin.shares.get(request.query_params.get("share", ""))
    schemas = list_page(request, lambda excerpt: admin.schemas.list(entry.name, excerpt), _NAME)
    return context.page(request, "share.html", share=entry, schemas=schemas)


def holders(context: ConsoleContext, request: Request) -> Response:
    """Show the recipients of a share."""
    admin = context.provider.admin
    entry = admin.shares.get(request.query_params.get("share", ""))

    def list_grants(excerpt: Excerpt) -> Iterator[Grant]:
        return admin.grants.of_share(entry.name, excerpt)

    grants = list_page(request, list_grants, lambda grant: grant.recipient_id)
    return context.page(request, "holders.html", share=entry, grants=grants)


def schema(context: ConsoleContext, request: Request) -> Response:
    """Show the tables, volumes, skills or models of a schema."""
    admin, parameters = context.provider.admin, request.query_params
    entry = admin.schemas.get(parameters.get("share", ""), parameters.get("schema", ""))
    kind = parameters.get("kind", "")
    kind = kind if kind in _KINDS else _KINDS[0]
    entries: Callable[[str, str, Excerpt], Iterable[Any]] = getattr(admin, f"{kind}s").list
    items = list_page(request, lambda excerpt: entries(entry.share, entry.name, excerpt), _NAME)
    return context.page(request, "schema.html", schema=entry, kinds=_KINDS, kind=kind, items=items)


_MAX_PARTITIONS: Final = 500


def table(context: ConsoleContext, request: Request) -> Response:
    """Show a table's catalog entry, and its latest version as read from the Delta log."""
    entry = table_of(context, request)

    def read(_: object) -> Any:
        from deltaic_ops.console.table_log import comments
        from deltaic_ops.inspection.table_facts import facts_of

        if not entry.client_modes:
            context.provider.schemas().check_iceberg(entry)
            return None
        return context.provider.schemas().look(
            entry, lambda latest: (facts_of(latest, entry), comments(latest.metadata))
        )

    key = ("table", entry.id)
    job = context.jobs.start(key, f"Reading the log of {entry.title}", read, max_age=MAX_AGE_SECONDS)
    is_done, latest, error = context.take_result(job, key)
    values = {"table": entry, "name": entry.title, "latest": latest, "error": error, "is_done": is_done}
    return context.page(request, "table.html", refresh="" if is_done else "1", **values)


def versions(context: ConsoleContext, request: Request) -> Response:
    """Show the size and the changed files of a table's latest versions."""
    entry = table_of(context, request)

    def read(_: object) -> Any:
        from deltaic_ops.console.table_log import versions

        return context.provider.schemas().in_store(entry.location, entry.storage, versions)

    def show(versions: Any) -> Response:
        points = [(version.committed_at, version.size, f"version {version.number}") for version in versions]
        sizes = steps("Size", [(time, size.bytes, title) for time, size, title in points], amount)
        rows = steps("Rows", [(time, size.rows, title) for time, size, title in points], "{:,.0f}".format)
        values = {"versions": versions[::-1], "sizes": sizes, "rows": rows}
        is_incomplete = any(size.without_statistics for _, size, _ in points)
        return context.page(request, "versions.html", name=entry.title, is_incomplete=is_incomplete, **values)

    return context.run_and_show(request, ("versions", entry.id), f"Reading the versions of {entry.title}", read, show)


def partitions(context: ConsoleContext, request: Request) -> Response:
    """Show the size of each partition of a table."""
    entry = table_of(context, request)

    def read(_: object) -> Any:
        from deltaic_ops.console.table_log import partitions

        return context.provider.schemas().look(
            entry,
            lambda latest: (latest.version, latest.metadata.partition_columns, partitions(latest)),
        )

    def show(result: Any) -> Response:
        version, names, sizes = result
        first = list(sizes.items())[:_MAX_PARTITIONS]
        return context.page(
            request,
            "partitions.html",
            name=entry.title,
            version=version,
            columns=names,
            partitions=first,
            remaining=len(sizes) - len(first),
        )

    title = f"Reading the partitions of {entry.title}"
    return context.run_and_show(request, ("partitions", entry.id), title, read, show)


def table_of(context: ConsoleContext, request: Request) -> Table:
    """Return the table in a request's parameter `table`; raises NotFound and InvalidParameter."""
    return context.provider.admin.tables.get(*split_table_name(request.query_params.get("table", "")))


ROUTES: Final[dict[str, Handler]] = {
    "/shares": shares,
    "/share": share,
    "/holders": holders,
    "/schema": schema,
    "/table": table,
    "/versions": versions,
    "/partitions": partitions,
}
