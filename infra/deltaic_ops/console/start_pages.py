"""The start page, which shows the state of everything shared, and the search over all names and columns."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain
from typing import Any, Final, NamedTuple

from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.checks.overview import DAYS, read_overview
from deltaic_ops.console.background_jobs import LONG_AGE_SECONDS, MAX_AGE_SECONDS, MAX_WAIT_SECONDS, BackgroundJob
from deltaic_ops.console.console_context import ConsoleContext, Handler, link

_READERS: Final = 8
_MAX_TABLES: Final = 1000
"""Maximum number of tables whose columns the search reads."""

_MAX_MATCHES: Final = 200


class _Name(NamedTuple):
    kind: str
    title: str
    url: str


def start(context: ConsoleContext, request: Request) -> Response:
    """Show counts, what expires, findings, the latest reads, and what to do next."""
    provider = context.provider

    def read(_: object) -> Any:
        return read_overview(provider.admin, provider.usage, provider.environment)

    def show(overview: Any) -> Response:
        results, errors = overview
        return context.page(request, "start.html", results=results, errors=errors, days=DAYS)

    return context.run_and_show(request, "overview", "Reading the catalog", read, show)


def search(context: ConsoleContext, request: Request) -> Response:
    """Show the entries and the columns whose names contain a text, in upper or lower case."""
    text = request.query_params.get("q", "").strip()
    jobs = (_list_names(context), _list_columns(context))
    wait([job.future for job in jobs], MAX_WAIT_SECONDS)
    names = chain.from_iterable(job.result()[0] or () for job in jobs if job.is_done and text)
    matches = [name for name in names if text.lower() in name.title.lower()]
    is_done = not text or all(job.is_done for job in jobs)
    values: dict[str, Any] = {"text": text, "matches": matches[:_MAX_MATCHES], "count": len(matches)}
    return context.page(request, "search.html", refresh="" if is_done else "1", is_done=is_done, **values)


def _list_names(context: ConsoleContext) -> BackgroundJob:
    """Start to list the names in the catalog, unless they were listed shortly before."""
    admin = context.provider.admin

    def names() -> Iterator[_Name]:
        for share in admin.shares.list():
            yield _Name("share", share.name, link("/share", share=share.name))
            for schema in admin.schemas.list(share.name):
                url = link("/schema", share=share.name, schema=schema.name)
                yield _Name("schema", f"{share.name}.{schema.name}", url)
            for table in admin.tables.list(share.name):
                yield _Name("table", table.title, link("/table", table=table.title))
            for folders in (admin.volumes, admin.skills, admin.models):
                for item in folders.list(share.name):
                    url = link("/schema", share=share.name, schema=item.schema_name, kind=item.kind)
                    yield _Name(item.kind, item.title, url)
        for recipient in admin.recipients.list():
            yield _Name("recipient", recipient.name, link("/recipient", recipient=recipient.name))

    return context.jobs.start("names", "Listing the catalog", lambda _: list(names()), max_age=MAX_AGE_SECONDS)


def _list_columns(context: ConsoleContext) -> BackgroundJob:
    """Start to read the columns of the first tables, unless they were read some minutes before."""
    admin, schemas = context.provider.admin, context.provider.schemas()

    def read(table: Table) -> list[_Name]:
        try:
            columns = schemas.read(table).columns
        except DeltaicError:  # the table's own page shows why
            return []
        return [_Name("column", f"{name} in {table.title}", link("/table", table=table.title)) for name in columns]

    def read_all(_: object) -> list[_Name]:
        tables = [table for share in admin.shares.list() for table in admin.tables.list(share.name)]
        with ThreadPoolExecutor(_READERS) as pool:
            return [name for names in pool.map(read, tables[:_MAX_TABLES]) for name in names]

    return context.jobs.start("columns", "Reading the columns", read_all, max_age=LONG_AGE_SECONDS)


ROUTES: Final[dict[str, Handler]] = {"/start": start, "/search": search}
