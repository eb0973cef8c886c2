"""When something was used last, as the usage table has it: its newest days first, and no more of them than needed."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from deltaic_ops.usage.usage_report import ERROR, is_check, usage_table

DAYS = 30
"""So many days, today among them, are looked at."""


class UsageOf(NamedTuple):
    """Whose uses are meant: a recipient's, or a table's."""

    column: Literal["recipient_id", "table_id"]
    id: str


def last_uses(
    location: str,
    environment: Mapping[str, str],
    of: UsageOf,
    by: Literal["token_id", "recipient_id"],
    wanted: Collection[str],
) -> dict[str, datetime]:
    """Return when each of those `wanted` last made a request that was not refused, or fetched.

    The last use by what is none of those stands under "", if one of them was not used later. What checks of the
    operator's asked is no use. Raises NotFound where there is no usage table, Unavailable.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found: dict[str, datetime] = {}
    answered = ~pc.coalesce(pc.field("status") >= ERROR, pa.scalar(value=False))
    meant = (pc.field(of.column) == of.id) & answered & ~is_check()
    with usage_table(location, environment) as table:
        for number in range(DAYS):
            day = pc.field("day") == pa.scalar(datetime.now(UTC).date() - timedelta(number), pa.date32())
            for batch in table.to_batches(columns=["time", by], filter=day & meant):
                rows: Any = pa.Table.from_batches([batch])
                for row in rows.group_by(by).aggregate([("time", "max")]).to_pylist():
                    who, last = row[by] if row[by] in wanted else "", row["time_max"].astimezone(UTC)
                    found[who] = max(found.get(who, last), last)
            if found and found.keys() >= {*wanted}:
                break
    return found
