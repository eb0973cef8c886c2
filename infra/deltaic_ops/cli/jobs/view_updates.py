"""Refresh views after a command that changed which rows recipients should see."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from deltaic.catalog.items import View
from deltaic.errors import DeltaicError, NotFound

from deltaic_ops.cli.operator import Operator
from deltaic_ops.deploy.outputs import JobsOutputs

WAIT_SECONDS = 600
"""How long a scheduled or automatic refresh waits for another writer of the view."""


def jobs_of(cli: Operator) -> JobsOutputs | None:
    """Return the stack's outputs for Spark jobs; None if the stack runs no jobs."""
    try:
        return cli.connection.jobs
    except NotFound:
        return None


Requests = dict[str, datetime | None]
"""When the refresh of each view was requested, by table id of the view; None if none is requested."""


def requests_of(cli: Operator, shares: Iterable[str]) -> Requests:
    """Return when refreshes of the shares' views were requested, to compare with the state after a change."""
    return {view.table_id: view.requested_at for share in shares for view in cli.admin.views.list(share)}


def ask_for_rows(cli: Operator, shares: Iterable[str], before: Requests) -> None:
    """Start a job that refreshes views with new requests, or print the command if the stack runs no jobs.

    Never starts Spark on this machine. Prints errors as notes, because the change itself is already made.
    """
    views = [
        view
        for share in shares
        for view in cli.admin.views.list(share)
        if view.requested_at is not None and view.requested_at != before.get(view.table_id)
    ]
    if not views:
        return
    names = [view.title for view in views]
    by_hand = f"deltaic view refresh {' '.join(names)}"
    outputs = jobs_of(cli)
    if outputs is None:
        cli.note(f"rows are missing from {_quoted(names)} until the next refresh; next: {by_hand}")
        return
    from deltaic_ops.cli.jobs.jobs import request, run_name  # commands on the catalog rarely need them
    from deltaic_ops.jobs.job_runs import JobRuns

    job_request = request("views", run_name(names[0]), [*names, f"--wait={WAIT_SECONDS}", "--json"])
    missing = f"rows are missing from {_quoted(names)}"
    try:
        started = JobRuns(outputs, cli.connection.client).start(job_request)
    except DeltaicError as refusal:
        cli.note(f"{missing}, and the refresh could not be started ({refusal.message}); next: {by_hand}")
        return
    cli.note(f"{missing} until job run {started} has refreshed them: deltaic pipeline logs {started}")


def keep_schedule(cli: Operator, view: View) -> str:
    """Create, update or delete the schedule of a view, and return a message; empty if nothing changed."""
    outputs = jobs_of(cli)
    if outputs is None:
        warning = "no stack runs Spark jobs, so the schedule has no effect: run `deltaic view refresh --due`"
        return warning if view.refresh else ""
    from deltaic_datasets.file.dataset_model import Schedule

    from deltaic_ops.cli.jobs.jobs import request, run_name
    from deltaic_ops.jobs.schedules import Schedules

    schedules = Schedules(outputs, cli.connection.client)
    if view.refresh:
        # A first failure may be transient, and no one watches: try once more, then raise the alarm.
        job_request = request("views", run_name(view.title), [view.title, f"--wait={WAIT_SECONDS}", "--json"])
        schedules.put(schedule_name(view), Schedule(expression=view.refresh), {**job_request, "attempts": 2})
        return f"scheduled: {view.refresh} (UTC)"
    try:
        schedules.remove(schedule_name(view))
    except NotFound:
        return ""
    return "deleted the view's schedule; changes of rights still refresh the view"


def drop_schedule(cli: Operator, view: View) -> None:
    """Delete the schedule of a deleted view."""
    outputs = jobs_of(cli) if view.refresh else None
    if outputs is not None:
        from deltaic_ops.jobs.schedules import Schedules

        with suppress(NotFound):
            Schedules(outputs, cli.connection.client).remove(schedule_name(view))


def schedule_name(view: View) -> str:
    """Return the name of a view's schedule: valid in EventBridge Scheduler, and unique among all schedules."""
    safe_name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in view.name)
    return f"view-{safe_name}-{view.table_id[:8]}"


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
