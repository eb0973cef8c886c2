"""What the usage table says: sums for each recipient, table and day, and last uses; read without Spark."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.credentials.tokens import CHECK
from deltaic.catalog.items import Item
from deltaic.errors import NotFound, Unavailable
from deltaic_pipeline.spark.storage_access import S3Access
from msgspec.structs import replace

if TYPE_CHECKING:
    from pyarrow.compute import Expression
    from pyarrow.dataset import Dataset

ERROR: Final = 400
"""From this status on a request was refused."""

UNKNOWN: Final = "(unknown)"


class Use(Item, frozen=True, kw_only=True):
    """What one recipient did with one table."""

    recipient: str
    table: str
    """`share.schema.table`; of a request that named none, a part of it or nothing."""

    requests: int = 0
    refused: int = 0
    """Requests that were answered with an error."""

    files_signed: int = 0
    bytes_signed: int = 0
    fetches: int = 0
    bytes_sent: int = 0
    unexplained: int = 0
    """Fetches that no request explains."""

    last_at: datetime


@dataclass(slots=True)
class Report:
    """The usage of some days."""

    since: date
    uses: list[Use] = field(default_factory=list)
    """By recipient and table; what sent most comes first."""

    days: dict[date, dict[str, int]] = field(default_factory=dict)
    """Bytes sent by day and recipient."""

    asked: dict[date, dict[str, int]] = field(default_factory=dict)
    """Requests by day and recipient."""


Names = Callable[[str], Collection[str]]
"""Returns the catalog's names in what may be a share: the share itself, `share.schema`, `share.schema.table`."""


def report(  # noqa: PLR0913 -- a table, and what of it is told
    location: str,
    days: int,
    environment: Mapping[str, str],
    names: Names,
    today: date | None = None,
    *,
    checks: bool = False,
) -> Report:
    """Read the table's last days, a batch at a time; raises NotFound where there is no table, Unavailable.

    What `deltaic verify` and `deltaic doctor` asked in a recipient's name is left out, or all that is told (`checks`).
    A request that was refused may name whatever its sender likes: it is told only as far as the catalog has it. `names`
    is asked once for each share that such a request named.
    """
    catalog = cache(lambda share: {name.lower(): name for name in names(share)})
    since = (today or datetime.now(UTC).date()) - timedelta(days=days - 1)
    uses: dict[tuple[str, str], Use] = {}
    result = Report(since)
    for row in _rows(location, since, environment, checks=checks):
        asked = [name for name in (row["share"], row["schema"], row["table"]) if name]
        table = _known(asked, catalog) if row["refused"] and asked else ".".join(asked)
        _count(row, table, uses, result)
    result.uses = sorted(uses.values(), key=lambda use: (-use.bytes_sent, use.recipient, use.table))
    return result


def names_in(admin: CatalogAdmin, share: str) -> list[str]:
    """Return the catalog's names in a share, however its own is spelled; none where it is not there."""
    try:
        name = admin.shares.get(share).name
    except NotFound:
        return []
    return [
        name,
        *(f"{name}.{schema.name}" for schema in admin.schemas.list(name)),
        *(f"{name}.{table.schema_name}.{table.name}" for table in admin.tables.list(name)),
        *(f"{name}.{folder.schema_name}.{folder.name_in_schema}" for folder in admin.folders(name)),
    ]


def _known(asked: Sequence[str], catalog: Callable[[str], Mapping[str, str]]) -> str:
    """Return what was asked for as the catalog spells it, up to the first name that it does not have."""
    names, name_so_far = catalog(asked[0].lower()), ""
    for name in asked:
        found = names.get(f"{name_so_far}.{name}".lstrip(".").lower())
        if found is None:
            return f"{name_so_far}.{UNKNOWN}".lstrip(".")
        name_so_far = found
    return name_so_far


def _count(row: Mapping[str, Any], table: str, uses: dict[tuple[str, str], Use], told: Report) -> None:
    who = row["recipient"] or row["recipient_id"] or UNKNOWN
    last = row["last"].astimezone(UTC)
    use = uses.get((who, table)) or Use(recipient=who, table=table, last_at=last)
    if row["kind"] == "request":
        counted = {
            "requests": "rows",
            "refused": "refused",
            "files_signed": "files_signed",
            "bytes_signed": "bytes_signed",
        }
        by_day, of_day = told.asked, row["rows"]
    else:
        counted = {"fetches": "rows", "unexplained": "unexplained", "bytes_sent": "bytes_sent"}
        by_day, of_day = told.days, row["bytes_sent"] or 0
    sums = {name: getattr(use, name) + (row[column] or 0) for name, column in counted.items()}
    uses[who, table] = replace(use, last_at=max(use.last_at, last), **sums)
    day = by_day.setdefault(row["day"], {})
    day[who] = day.get(who, 0) + of_day


@contextmanager
def usage_table(location: str, environment: Mapping[str, str]) -> "Iterator[Dataset]":
    """Give the usage table to be read; raises NotFound where there is none, and Unavailable."""
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table = DeltaTable(location, storage_options=S3Access.from_environment(environment).deltalake())
        yield table.to_pyarrow_dataset()
    except TableNotFoundError:
        raise NotFound(
            f"there is no usage table at {location}: make it with `deltaic usage collect`, or name another"
        ) from None
    except (DeltaError, OSError, pa.ArrowException) as failure:
        raise Unavailable(f"the usage table {location} cannot be read: {failure}") from failure


def is_check() -> "Expression":
    """Return what is true of rows that `verify` and `doctor` have caused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.coalesce(pc.starts_with(pc.field("token_id"), CHECK), pa.scalar(value=False))


def _rows(location: str, since: date, environment: Mapping[str, str], *, checks: bool) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    own = ["kind", "day", "recipient_id", "recipient", "share", "schema", "table"]
    counted = ["files_signed", "bytes_signed", "bytes_sent"]
    is_refused = (pc.field("kind") == "request") & (pc.field("status") >= ERROR)
    computed = {
        "is_refused": is_refused,
        "refused": is_refused.cast(pa.int64()),
        "unexplained": (pc.field("explained_by") == 0).cast(pa.int64()),
    }
    by, sums = [*own, "is_refused"], [*counted, "refused", "unexplained"]
    columns = {name: pc.field(name) for name in (*own, *counted, "time")} | computed
    with usage_table(location, environment) as table:
        # By the folders of the days, so that the files of earlier ones are not opened.
        recent = pc.field("day") >= pa.scalar(since, pa.date32())
        wanted = recent & (is_check() if checks else ~is_check())
        for batch in table.to_batches(columns=columns, filter=wanted):
            rows: Any = pa.Table.from_batches([batch])
            grouped = rows.group_by(by).aggregate([([], "count_all"), ("time", "max"), *((one, "sum") for one in sums)])
            names = {"count_all": "rows", "time_max": "last", **{f"{one}_sum": one for one in sums}}
            yield from grouped.rename_columns([names.get(name, name) for name in grouped.column_names]).to_pylist()


def amount(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:  # noqa: PLR2004 -- decimal units
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} PB"


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
