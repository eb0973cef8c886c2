"""Preview the rows of a table that a recipient can read, through the endpoint with a short-lived token."""

from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from deltaic.catalog.admin.records import Excerpt
from deltaic.catalog.items import Recipient, Table
from deltaic.errors import InvalidParameter
from deltaic.sharing.caller import RequestedTable
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.background_jobs import ReportProgress
from deltaic_ops.console.console_context import ConsoleContext, Handler, link
from deltaic_ops.console.provider import Provider
from deltaic_ops.console.share_pages import table_of

ROWS: Final = 50
_MAX_GRANTS: Final = 20
"""Maximum number of recipients from which the page offers a choice."""


def preview(context: ConsoleContext, request: Request) -> Response:
    """Show the recipients of a table to choose from, or one recipient's access and last preview."""
    table, name = table_of(context, request), request.query_params.get("recipient", "")
    admin = context.provider.admin
    if not name:
        grants = list(admin.grants.of_share(table.share, Excerpt(limit=_MAX_GRANTS)))
        return context.page(request, "preview.html", name=table.title, grants=grants, recipient=None)
    recipient = admin.recipients.get(name)
    return context.show_result(
        request,
        _key(table, recipient),
        "preview.html",
        name=table.title,
        recipient=recipient,
        grants=[],
        access=_access(context.provider, table, recipient),
    )


def read_preview(context: ConsoleContext, request: Request) -> Response:
    """Start to read the rows of a preview, and redirect to its page."""
    form = request.state.form
    table, recipient = table_of(context, request), context.provider.admin.recipients.get(form.get("recipient", ""))

    def read(report_progress: ReportProgress) -> dict[str, Any]:
        return rows_of(context.provider, table, recipient, report_progress)

    context.jobs.start(_key(table, recipient), f"Reading {table.title} as {recipient.name}", read, max_age=0)
    return RedirectResponse(link("/preview", table=table.title, recipient=recipient.name), 303)


def rows_of(provider: Provider, table: Table, recipient: Recipient, report_progress: ReportProgress) -> dict[str, Any]:
    """Return version, columns and first rows of a table as a recipient; raises InvalidParameter without an endpoint."""
    if not provider.endpoint:
        raise InvalidParameter("the endpoint of the server is unknown: start the console with --endpoint")
    from delta_sharing_pull.csv_columns import row_texts
    from delta_sharing_pull.progress import Progress
    from delta_sharing_pull.server import SharedName, SharingServer
    from delta_sharing_pull.snapshot import Snapshot
    from delta_sharing_pull.table_rows import READABLE_FEATURES, TableRows

    from deltaic_ops.inspection.pull_errors import translate_errors

    shared_name = SharedName(Path(), table.share, table.schema_name, table.name)
    with (
        translate_errors(),
        provider.admin.tokens.for_checks(recipient) as bearer,
        closing(SharingServer(provider.endpoint, bearer)) as server,
    ):
        report_progress("requesting the list of files")
        snapshot = Snapshot(server, shared_name, {"limitHint": ROWS}, READABLE_FEATURES)
        rows = TableRows(snapshot)
        progress = Progress(
            lambda now: report_progress(f"{now.files} of {now.files_expected} files, {now.bytes:,} bytes")
        )
        with closing(rows.batches(progress, ROWS)) as batches:
            texts = [row_texts(batch) for batch in batches]
    return {"version": snapshot.version, "columns": rows.schema.names, "rows": [*chain.from_iterable(texts)]}


def _access(provider: Provider, table: Table, recipient: Recipient) -> Any:
    from deltaic_ops.rights.access_report import AccessRequest, access_of

    name = RequestedTable(table.share, table.schema_name, table.name)
    return access_of(provider.admin, provider.reader, AccessRequest(recipient, name, datetime.now(UTC)))


def _key(table: Table, recipient: Recipient) -> tuple[str, str, str]:
    return "preview", table.id, recipient.id


ROUTES: Final[dict[str, Handler]] = {"/preview": preview}
FORMS: Final[dict[str, Handler]] = {"/preview": read_preview}
