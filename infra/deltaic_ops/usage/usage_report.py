"""Sum the rows of the usage table by recipient, table and day, and find the times of last uses."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from operator import attrgetter
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
"""Lowest HTTP status that counts as an error."""

UNKNOWN: Final = "(unknown)"
_SUMS: Final = ("requests", "refused", "files_signed", "bytes_signed", "fetches", "bytes_sent", "unexplained")


class Use(Item, frozen=True, kw_only=True):
    """Usage of one table by one recipient: sums of its requests and downloads."""

    recipient: str
    table: str
    """`share.schema.table`; only `share` or `share.schema` for requests without a table."""

    requests: int = 0
    refused: int = 0
    """Number of requests with an error status (400 or higher)."""

    files_signed: int = 0
    bytes_signed: int = 0
    fetches: int = 0
    bytes_sent: int = 0
    unexplained: int = 0
    """Number of downloads of files for which the log has no request that signed their URL."""

    last_at: datetime


@dataclass(slots=True)
class Report:
    """Usage of all tables by all recipients since a date."""

    since: date
    uses: list[Use] = field(default_factory=list)
    """Usage by recipient and table, ordered by sent bytes, the largest first."""

    bytes_by_day: dict[date, dict[str, int]] = field(default_factory=dict)
    """Number of sent bytes by day and recipient."""

    requests_by_day: dict[date, dict[str, int]] = field(default_factory=dict)
    """Number of requests by day and recipient."""


Names = Callable[[str], Collection[str]]
"""Function that returns the full names of a share and its entries; empty if the share does not exist."""


def report(  # noqa: PLR0913 -- location and selection of rows
    location: str,
    days: int,
    environment: Mapping[str, str],
    names: Names,
    today: date | None = None,
    *,
    checks: bool = False,
) -> Report:
    """Read the usage table, and sum the last `days` days; raises NotFound and Unavailable.

    Requests of `deltaic verify` and `deltaic doctor` are excluded; with `checks`, only these are included. Rejected
    requests can contain any names, so names that `names` does not return are reported as unknown.
    """
    catalog = cache(lambda share: {name.lower(): name for name in names(share)})
    since = (today or datetime.now(UTC).date()) - timedelta(days=days - 1)
    uses: dict[tuple[str, str], Use] = {}
    result = Report(since)
    for row in _rows(location, since, environment, checks=checks):
        requested = [name for name in (row["share"], row["schema"], row["table"]) if name]
        table = _catalog_spelling(requested, catalog) if row["refused"] and requested else ".".join(requested)
        _count(row, table, uses, result)
    result.uses = sorted(uses.values(), key=lambda use: (-use.bytes_sent, use.recipient, use.table))
    return result


def names_in(admin: CatalogAdmin, share: str) -> list[str]:
    """Return the full names of a share and its entries; empty if the share does not exist."""
    try:
        share_name = admin.shares.get(share).name
    except NotFound:
        return []
    return [
        share_name,
        *(f"{share_name}.{schema.name}" for schema in admin.schemas.list(share_name)),
        *(f"{share_name}.{table.schema_name}.{table.name}" for table in admin.tables.list(share_name)),
        *(f"{share_name}.{folder.schema_name}.{folder.name_in_schema}" for folder in admin.folders(share_name)),
    ]


def _catalog_spelling(requested: Sequence[str], catalog: Callable[[str], Mapping[str, str]]) -> str:
    """Return the full name with the catalog's upper and lower case, up to the first unknown part."""
    names, spelled = catalog(requested[0].lower()), ""
    for name in requested:
        match = names.get(f"{spelled}.{name}".lstrip(".").lower())
        if match is None:
            return f"{spelled}.{UNKNOWN}".lstrip(".")
        spelled = match
    return spelled


def _count(row: Mapping[str, Any], table: str, uses: dict[tuple[str, str], Use], report: Report) -> None:
    recipient = row["recipient"] or row["recipient_id"] or UNKNOWN
    last = row["time_max"].astimezone(UTC)
    use = uses.get((recipient, table)) or Use(recipient=recipient, table=table, last_at=last)
    sums = {name: getattr(use, name) + (row[name] or 0) for name in _SUMS}
    uses[recipient, table] = replace(use, last_at=max(use.last_at, last), **sums)
    for by_day, name in ((report.requests_by_day, "requests"), (report.bytes_by_day, "bytes_sent")):
        if row[name]:
            day = by_day.setdefault(row["day"], {})
            day[recipient] = day.get(recipient, 0) + row[name]


@contextmanager
def usage_table(location: str, environment: Mapping[str, str]) -> "Iterator[Dataset]":
    """Open the usage table as a pyarrow dataset; raises NotFound if it does not exist, and Unavailable."""
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    remedy = "collect it with `deltaic usage collect`"
    if not location:
        raise NotFound(f"no usage table is set, so no usage is known: {remedy}, and use --usage with its location")
    try:
        table = DeltaTable(location, storage_options=S3Access.from_environment(environment).deltalake())
        yield table.to_pyarrow_dataset()
    except TableNotFoundError:
        raise NotFound(
            f"there is no usage table at {location}, so no usage is known: {remedy}, or use another location"
        ) from None
    except (DeltaError, OSError, pa.ArrowException) as failure:
        raise Unavailable(f"cannot read the usage table {location}: {failure}") from failure


def is_check_row() -> "Expression":
    """Return an expression that is true for rows about requests of `deltaic verify` and `deltaic doctor`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.coalesce(pc.starts_with(pc.field("token_id"), CHECK), pa.scalar(value=False))


def _rows(location: str, since: date, environment: Mapping[str, str], *, checks: bool) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = ("day", "recipient_id", "recipient", "share", "schema", "table")
    is_request, is_fetch = pc.field("kind") == "request", pc.field("kind") == "fetch"
    is_refused = is_request & (pc.field("status") >= ERROR)
    counted = {
        "requests": is_request, "refused": is_refused, "fetches": is_fetch, "unexplained": pc.field("explained_by") == 0
    }  # fmt: skip
    columns = {name: pc.field(name) for name in (*keys, *_SUMS, "time") if name not in counted}
    columns |= {name: condition.cast(pa.int64()) for name, condition in counted.items()} | {"is_refused": is_refused}
    with usage_table(location, environment) as table:
        # Select by the partition column, so that files of earlier days are not opened.
        recent = pc.field("day") >= pa.scalar(since, pa.date32())
        is_selected = recent & (is_check_row() if checks else ~is_check_row())
        for batch in table.to_batches(columns=columns, filter=is_selected):
            rows: Any = pa.Table.from_batches([batch])
            sums = rows.group_by([*keys, "is_refused"]).aggregate([("time", "max"), *((name, "sum") for name in _SUMS)])
            yield from sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).to_pylist()


def amount(size: float) -> str:
    """Return a number of bytes as a string with a decimal unit, such as 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:  # noqa: PLR2004 -- decimal units
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} PB"


DAYS = 30
"""Number of days, including today, in which last uses are searched."""


class UsageFilter(NamedTuple):
    """Filter on the usage table: rows of one recipient or one table."""

    column: Literal["recipient_id", "table_id"]
    id: str


def last_uses(
    location: str,
    environment: Mapping[str, str],
    selection: UsageFilter,
    by: Literal["token_id", "recipient_id"],
    ids: Collection[str],
) -> dict[str, datetime]:
    """Return the time of the last successful request or download for each id of `ids` in the column `by`.

    Key "" has the last use by any other id; it can be missing if that use is older than those by `ids`. Requests of
    `deltaic verify` and `deltaic doctor` do not count. Raises NotFound without a usage table, and Unavailable.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    uses: dict[str, datetime] = {}
    answered = ~pc.coalesce(pc.field("status") >= ERROR, pa.scalar(value=False))
    is_selected = (pc.field(selection.column) == selection.id) & answered & ~is_check_row()
    with usage_table(location, environment) as table:
        for number in range(DAYS):
            day = pc.field("day") == pa.scalar(datetime.now(UTC).date() - timedelta(number), pa.date32())
            for batch in table.to_batches(columns=["time", by], filter=day & is_selected):
                rows: Any = pa.Table.from_batches([batch])
                for row in rows.group_by(by).aggregate([("time", "max")]).to_pylist():
                    user, last = row[by] if row[by] in ids else "", row["time_max"].astimezone(UTC)
                    uses[user] = max(uses.get(user, last), last)
            if uses and uses.keys() >= {*ids}:
                break
    return uses


def last_reads(location: str, environment: Mapping[str, str], count: int) -> list[Use]:
    """Return up to `count` uses of tables in the last `DAYS` days that succeeded, the latest first.

    Raises NotFound without a usage table, and Unavailable.
    """
    reads: list[Use] = []
    for days in (2, DAYS):
        # Rejected requests have no known table, because no names are passed.
        uses = report(location, days, environment, lambda _: ()).uses
        reads = [use for use in uses if use.table.count(".") > 1 and (use.requests > use.refused or use.fetches)]
        if len(reads) >= count:
            break
    return sorted(reads, key=attrgetter("last_at"), reverse=True)[:count]
