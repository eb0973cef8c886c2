"""The page of runs: what each run of a dataset did, by the table in which it has a row."""

from typing import Any, Final

from deltaic.errors import DeltaicError
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.run_log import rows
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.console_context import Desk, Handler

_MOST: Final = 200
"""Runs that are shown, the latest first."""


def runs(desk: Desk, request: Request) -> Response:
    """Show the runs of the table that is asked for, else of the console's own; nothing is read before one is known."""
    asked = request.query_params
    location = asked.get("runs", "").strip() or desk.provider.runs
    dataset, failed = asked.get("dataset", "").strip(), asked.get("failed") == "yes"

    def show(found: list[dict[str, Any]], trouble: str = "") -> Response:
        latest, more = found[::-1][:_MOST], len(found) > _MOST
        said: dict[str, Any] = {"location": location, "dataset": dataset, "failed": failed, "trouble": trouble}
        return desk.page(request, "runs.html", **said, runs=latest, more=more)

    if not location:
        return show([])
    access = S3Access.from_environment(desk.provider.environment)
    try:
        return desk.found_out(
            request,
            ("runs", location, dataset, failed),
            f"Reading the runs at {location}",
            lambda _: rows(location, access, dataset, failed=failed),
            show,
        )
    except DeltaicError as refusal:
        return show([], refusal.message)


ROUTES: Final[dict[str, Handler]] = {"/runs": runs}
