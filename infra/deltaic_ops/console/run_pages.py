"""The page of dataset runs, read from the runs table (a Delta table)."""

from typing import Any, Final

from deltaic.errors import DeltaicError
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.run_log import rows
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.console_context import ConsoleContext, Handler

_MAX_RUNS: Final = 200
"""Maximum number of runs on the page, which shows the latest first."""


def runs(context: ConsoleContext, request: Request) -> Response:
    """Show the runs in the runs table of the request, or in the console's default runs table."""
    parameters = request.query_params
    location = parameters.get("runs", "").strip() or context.provider.runs
    dataset, failed = parameters.get("dataset", "").strip(), parameters.get("failed") == "yes"

    def show(matches: list[dict[str, Any]], error: str = "") -> Response:
        latest, is_truncated = matches[::-1][:_MAX_RUNS], len(matches) > _MAX_RUNS
        values: dict[str, Any] = {"location": location, "dataset": dataset, "failed": failed, "error": error}
        return context.page(request, "runs.html", **values, runs=latest, is_truncated=is_truncated)

    if not location:
        return show([])
    access = S3Access.from_environment(context.provider.environment)
    try:
        return context.run_and_show(
            request,
            ("runs", location, dataset, failed),
            f"Reading the runs at {location}",
            lambda _: rows(location, access, dataset, failed=failed),
            show,
        )
    except DeltaicError as error:
        return show([], error.message)


ROUTES: Final[dict[str, Handler]] = {"/runs": runs}
