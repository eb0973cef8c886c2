"""Rows of a table as a chosen recipient gets them: from the endpoint that answers it, by a token of some minutes."""

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Recipient, Table
from deltaic.errors import InvalidParameter
from deltaic.sharing.caller import RequestedTable
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.background_jobs import Say
from deltaic_ops.console.console_context import Desk, Handler, link
from deltaic_ops.console.provider import Provider
from deltaic_ops.console.share_pages import table_of

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 50
_HOLDERS: Final = 20
"""That are offered to choose from."""

_LONGEST: Final = 200
"""Characters of a cell."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows that somebody gets."""

    version: int
    columns: list[str]
    rows: list[tuple[str | None, ...]]


def preview(desk: Desk, request: Request) -> Response:
    """Show who may be chosen; of who was chosen the rule that decides, and the rows once they were asked for."""
    table, name = table_of(desk, request), request.query_params.get("recipient", "")
    admin = desk.provider.admin
    if not name:
        grants = list(admin.grants.of_share(table.share, Excerpt(limit=_HOLDERS)))
        return desk.page(request, "preview.html", name=table.title, holders=grants, person=None)
    person = admin.recipients.get(name)
    return desk.asked_for(
        request,
        _key(table, person),
        "preview.html",
        name=table.title,
        person=person,
        holders=[],
        access=_access(desk.provider, table, person),
    )


def ask(desk: Desk, request: Request) -> Response:
    """Read the rows, which the page then shows."""
    form = request.state.form
    table, person = table_of(desk, request), desk.provider.admin.recipients.get(form.get("recipient", ""))

    def read(say: Say) -> Rows:
        return rows_of(desk.provider, table, person, say)

    desk.works.begun(_key(table, person), f"Reading {table.title} as {person.name}", read, older=0)
    return RedirectResponse(link("/preview", table=table.title, recipient=person.name), 303)


def rows_of(provider: Provider, table: Table, person: Recipient, say: Say) -> Rows:
    """Return the first rows; raises what the endpoint refuses this recipient, InvalidParameter where none is known."""
    if not provider.endpoint:
        raise InvalidParameter("nothing tells where the server is: start the console with --endpoint")
    from delta_sharing_pull.progress import Progress
    from delta_sharing_pull.server import SharedName, SharingServer
    from delta_sharing_pull.snapshot import Snapshot
    from delta_sharing_pull.table_rows import READABLE_FEATURES, TableRows

    from deltaic_ops.inspection.pull_errors import translate_errors

    shared = SharedName(Path(), table.share, table.schema_name, table.name)
    with (
        translate_errors(),
        provider.admin.tokens.for_checks(person) as bearer,
        closing(SharingServer(provider.endpoint, bearer)) as server,
    ):
        say("asking for the files")
        snapshot = Snapshot(server, shared, {"limitHint": ROWS}, READABLE_FEATURES)
        rows = TableRows(snapshot)
        progress = Progress(lambda now: say(f"{now.files} of {now.files_expected} files, {now.bytes:,} bytes"))
        with closing(rows.batches(progress, ROWS)) as batches:
            columns = [[text for batch in each for text in batch] for each in zip(*map(_texts, batches), strict=True)]
    return Rows(snapshot.version, rows.schema.names, list(zip(*columns, strict=True)))


def _access(provider: Provider, table: Table, person: Recipient) -> Any:
    from deltaic_ops.rights.access_report import Asked, access_of

    name = RequestedTable(table.share, table.schema_name, table.name)
    return access_of(provider.admin, provider.reader, Asked(person, name, datetime.now(UTC)))


def _texts(batch: "pa.RecordBatch") -> list[list[str | None]]:
    return [[_text(value) for value in column] for column in batch.columns]


def _text(value: Any) -> str | None:
    """Return a cell as text: bytes in hex, and what Python has no value for as Arrow writes it."""
    if not value.is_valid:
        return None
    try:
        plain = value.as_py()
    except (ValueError, OverflowError):
        plain = value
    text = plain.hex() if isinstance(plain, bytes) else str(plain)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _key(table: Table, person: Recipient) -> tuple[str, str, str]:
    return "preview", table.id, person.id


ROUTES: Final[dict[str, Handler]] = {"/preview": preview}
FORMS: Final[dict[str, Handler]] = {"/preview": ask}
