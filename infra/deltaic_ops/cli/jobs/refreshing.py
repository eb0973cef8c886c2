"""Asks for the refresh of views whose rows a command made somebody lack."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from deltaic.catalog.items import View
from deltaic.errors import DeltaicError, NotFound

from deltaic_ops.cli.operator import Operator
from deltaic_ops.deploy.outputs import JobsOutputs

WAIT_SECONDS = 600
"""How long a refresh that nobody watches waits for another writer of the view."""


def jobs_of(out: Operator) -> JobsOutputs | None:
    """Return where the stack runs jobs; None where it runs none."""
    try:
        return out.connection.jobs
    except NotFound:
        return None


Requests = dict[str, datetime | None]
"""When the refresh of each view was requested, by the id of its table."""


def requests_of(out: Operator, shares: Iterable[str]) -> Requests:
    """Return the requests that there are before a change."""
    return {view.table_id: view.requested_at for share in shares for view in out.admin.views.list(share)}


def ask_for_rows(out: Operator, shares: Iterable[str], before: Requests) -> None:
    """Refresh the views for which a change has made requests: by the stack's jobs, else by hand, as a line says.

    Spark never starts on this machine unasked. The change itself has been made, so nothing is refused any more.
    """
    views = [
        view
        for share in shares
        for view in out.admin.views.list(share)
        if view.requested_at is not None and view.requested_at != before.get(view.table_id)
    ]
    if not views:
        return
    names = [view.title for view in views]
    by_hand = f"deltaic view refresh {' '.join(names)}"
    where = jobs_of(out)
    if where is None:
        out.note(f"lacks rows of {_listed(names)} until they are refreshed: {by_hand}")
        return
    from deltaic_ops.cli.jobs.jobs import request, run_name  # commands on the catalog seldom need them
    from deltaic_ops.jobs.runs import JobRuns

    asked = request("views", run_name(names[0]), [*names, f"--wait={WAIT_SECONDS}", "--json"])
    try:
        started = JobRuns(where, out.connection.client).start(asked)
    except DeltaicError as refusal:
        out.note(f"lacks rows of {_listed(names)}, whose refresh could not be started ({refusal.message}): {by_hand}")
        return
    out.note(f"lacks rows of {_listed(names)}, which job run {started} refreshes: deltaic pipeline logs {started}")


def keep_schedule(out: Operator, view: View) -> str:
    """Let a view be refreshed as its entry says, and say so; empty where it has no schedule and never had one."""
    where = jobs_of(out)
    if where is None:
        alone = "no stack that runs jobs is found, so nothing keeps the schedule: run `deltaic view refresh --due`"
        return alone if view.refresh else ""
    from deltaic_datasets.file.model import Schedule

    from deltaic_ops.cli.jobs.jobs import request, run_name
    from deltaic_ops.jobs.schedules import Schedules

    schedules = Schedules(where, out.connection.client)
    if view.refresh:
        # Nobody looks when it fails, and the first time it may be the machine's fault: once more, then the alarm.
        asked = request("views", run_name(view.title), [view.title, f"--wait={WAIT_SECONDS}", "--json"])
        schedules.put(schedule_name(view), Schedule(expression=view.refresh), {**asked, "attempts": 2})
        return f"it is refreshed by {view.refresh} in UTC"
    try:
        schedules.remove(schedule_name(view))
    except NotFound:
        return ""
    return "it is refreshed by hand, and when rights change, from now on"


def drop_schedule(out: Operator, view: View) -> None:
    """Take the schedule of a view away that is gone."""
    where = jobs_of(out) if view.refresh else None
    if where is not None:
        from deltaic_ops.jobs.schedules import Schedules

        with suppress(NotFound):
            Schedules(where, out.connection.client).remove(schedule_name(view))


def schedule_name(view: View) -> str:
    """Return the name of a view's schedule: in Scheduler's letters, and not that of any dataset or other view."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in view.name)
    return f"view-{plain}-{view.table_id[:8]}"


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
