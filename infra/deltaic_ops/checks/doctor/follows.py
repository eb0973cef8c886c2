"""Whether schemas have the tables of what they follow: sources that are looked at, tables that are listed."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from deltaic.catalog.admin.follows import Follow
from deltaic.catalog.items import Table
from deltaic.scheduled.following import SAME_NAME

from deltaic_ops.inspection.findings import Finding, ok

PATIENCE = timedelta(hours=3)
"""After which a source should have been looked at again."""


def followed(
    follows: Iterable[Follow], tables: Iterable[Table], parameters: Mapping[str, str] | None
) -> Iterator[Finding]:
    """Yield a finding for each source that is not looked at and each table that is not shared, or one for all.

    `parameters` are the stack's; None where there is none.
    """
    looked_at, wrong = 0, False
    for one in follows:
        looked_at += 1
        for finding in _of_source(one, parameters):
            wrong = True
            yield finding
    for table in tables:
        if table.unlisted:
            wrong = True
            remedy = f"mend it, and it comes back by itself; or deltaic table delete {table.title}"
            yield Finding(f"lists {table.title}", "warning", f"recipients do not see it: {table.unlisted}", remedy)
    if looked_at and not wrong:
        yield ok("follows its sources", f"{looked_at} of them, every table is listed")


def _of_source(one: Follow, parameters: Mapping[str, str] | None) -> Iterator[Finding]:
    check, now = f"follows {one.source}", f"deltaic share follow {one.share} --schema {one.schema_name} --now"
    if one.failure:
        yield Finding(check, "failed", one.failure, f"the source, and who may list it; then: {now}")
    elif one.looked_at is None or datetime.now(UTC) - one.looked_at >= PATIENCE:
        since = f"last {one.looked_at:%Y-%m-%d %H:%M} UTC" if one.looked_at else "never"
        by_hand = parameters is None or parameters.get("Follow") == "enabled"
        remedy = now if by_hand else f"deploy with Follow=enabled, or {now}"
        yield Finding(check, "warning", f"looked at {since}", remedy)
    for name, why in one.reasons.items():
        patterns = " ".join(f"--exclude {shlex.quote(each)}" for each in (*one.exclude, name))  # they replace all
        remedy = f"deltaic share follow {one.share} --schema {one.schema_name} {patterns}, or mend it"
        if why.startswith(SAME_NAME):
            remedy = f"name one of the two otherwise, or share this one by hand: deltaic table create {one.title}.NAME"
        yield Finding(f"shares {one.title}.{name}", "warning", f"not entered: {why}", remedy)
