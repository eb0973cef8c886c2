"""The command `deltaic expiring`: what ends soon, so that it is renewed before a recipient asks why."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from deltaic.scheduled.endings import endings_of_all

from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Operator
from deltaic_ops.cli.recipients.used import told_ending
from deltaic_ops.cli.words import duration

_WITHIN = timedelta(days=30)


def expiring(
    out: Operator,
    within: Annotated[
        timedelta, typer.Option(parser=duration, metavar="30d", help="How soon.", show_default="30d")
    ] = _WITHIN,
) -> None:
    r"""List which tokens, open links, grants and recipients end soon, the first to end first.

    What ends for a recipient that is cut off or has ended is not listed.

    \b
    deltaic expiring
    deltaic expiring --within 7d --json
    """
    now = datetime.now(UTC)
    found = endings_of_all(out.admin, now, now + within)
    if out.as_json:
        out.json(list(map(told_ending, found)))
    elif found:
        out.table(
            found,
            fields(ENDS="ends_at", RECIPIENT="recipient", WHAT="kind", ID="what"),
        )
    else:
        out.note("nothing ends in that time")
