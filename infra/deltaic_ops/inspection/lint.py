"""What recipients of a Delta table would run into, found by its log before it is shared."""

from collections.abc import Iterator
from datetime import timedelta

from deltaic.catalog.admin.tables import TableAdmin
from deltaic.catalog.items import Table, now
from deltaic.delta.features import PARQUET_MISREADS
from deltaic.delta.property_intervals import DELETED_FILES, DELETED_FILES_UNSAID, parse_interval
from deltaic.errors import DeltaicError
from msgspec.structs import replace

from deltaic_ops.inspection.findings import Finding, advise, judge, not_asked, ok
from deltaic_ops.inspection.shared_schema import SchemaReader, missed_by_folder, missed_by_history, missed_by_iceberg
from deltaic_ops.inspection.survey import Survey

MANY_COMMITS = 100
"""Behind a checkpoint: each is a request of every reader that begins."""

MANY_FILES, SMALL_BYTES = 100, 8 << 20
"""So many files of less than that on average cost a recipient more requests than bytes."""


OF_FOLDERS = frozenset({"folder", "paths", "string views", "folder alone"})
"""Checks that matter where the folder is read by credentials (access mode `dir`)."""
_OF_HISTORY = frozenset({"history", "removed files"})


def lint(found: Survey, tables: TableAdmin, location: str, storage: str = "") -> Iterator[Finding]:
    """Yield what holds of a table and what does not; `tables` tell what of it, or of its folder, is shared already."""
    latest = found.latest
    yield ok("log", f"version {latest.version}, {latest.files:,} files, {latest.bytes:,} bytes")
    yield from _of_table(found)
    yield from _of_others(tables, location, storage)


def lint_iceberg(schemas: SchemaReader, table: Table) -> Finding:
    """Return whether the metadata of a shared Iceberg table can be read, which is all that its clients go by."""
    try:
        schemas.check_iceberg(table)
    except DeltaicError as refusal:
        return Finding("metadata", "failed", refusal.message, "correct --location or --glue of its entry")
    return ok("metadata", "read by Iceberg clients, and by no others")


def unreadable(refusal: DeltaicError) -> Finding:
    """Return what there is to say of a table whose log cannot be read."""
    return Finding("log", "failed", refusal.message, "correct the location or the storage, or repair the table")


def warned(found: Survey, table: Table) -> list[str]:
    """Return what of it those will run into with whom the table is shared as its entry says."""
    left_out = set() if "dir" in table.access_modes else {*OF_FOLDERS}
    left_out |= set() if table.history else _OF_HISTORY
    left_out |= set() if "url" in table.access_modes else {"formats"}
    left_out |= set() if table.iceberg else {"Iceberg"}
    told = (one for one in _of_table(found) if not one.holds and one.check not in left_out)
    return [f"{one.said}: {one.remedy}" if one.remedy else one.said for one in told]


def _of_table(found: Survey) -> Iterator[Finding]:
    yield from _of_formats(found)
    yield from _of_files(found)
    yield from _of_history(found)
    yield from _of_folder(found)
    yield from _warned("Iceberg", "read by Iceberg clients (--iceberg)", missed_by_iceberg(found.schema))


def _of_folder(found: Survey) -> Iterator[Finding]:
    yield from _warned("folder", "read by its folder (--access-mode dir)", missed_by_folder(found.schema))
    yield advise(
        "paths",
        f"{found.odd_paths or 'no'} files lie at one with a space or a letter beyond ASCII",
        "polars finds none of them in the folder; QueryBuilder of deltalake does, and whoever reads by URLs",
        holds=not found.odd_paths,
    )
    yield advise(
        "string views",
        f"files keep as Arrow's views: {', '.join(found.in_views)}" if found.in_views else "none",
        "pyarrow, and to_pyarrow_table of deltalake, cannot filter by these columns, and QueryBuilder can: have the "
        "writer cast them to plain strings (polars writes views)",
        holds=not found.in_views,
    )


def _of_others(tables: TableAdmin, location: str, storage: str) -> Iterator[Finding]:
    """Yield what else in the catalog lies in the folder, or holds it, and keeps it from being shared in some way."""
    entry = Table(
        name="", schema_name="", share="", id="", share_id="", location=location, storage=storage, created_at=now()
    )
    whole, in_part = replace(entry, access_modes=("url", "dir")), replace(entry, name="-", hidden_columns=("-",))
    try:
        pairs = [*tables.overlaps.opened([whole, in_part])]
    except DeltaicError as refusal:
        yield not_asked("folder alone", f"the catalog cannot be asked: {refusal.message}")
        return
    told = [
        f"its folder cannot be shared: not all of '{narrow.title}' is, which lies in {narrow.location}"
        if wide == whole
        else f"it cannot be shared in part: '{wide.title}' shares all that lies in {wide.location}"
        for wide, narrow in pairs
    ]
    yield from _warned("folder alone", "nothing that is shared in part lies in it, nor it in what is", iter(told))


def _of_formats(found: Survey) -> Iterator[Finding]:
    misread = sorted({*found.latest.features} & PARQUET_MISREADS)
    yield advise(
        "formats",
        f"{', '.join(misread)}: in delta format alone" if misread else "in parquet format and in delta format",
        "clients that know parquet format alone are refused (the Python client before 1.1, npm's, streams of a change "
        "feed by Spark's connector): a view, or a copy without the feature, serves them too",
        holds=not misread,
    )


def _of_files(found: Survey) -> Iterator[Finding]:
    untold, latest = found.without_statistics, found.latest
    yield judge(
        "data files",
        found.unread or "those that were looked into can be read",
        "nobody can read them: restore them, or repair the table (FSCK)",
        holds=not found.unread,
    )
    told = (
        f"{value} has more or fewer digits after the point than its type: delta-kernel refuses the table, and with it "
        "Python's client in delta format, deltalake, polars and duckdb. Have the writer write 1.50 for decimal(10,2)"
        for value in found.schema.unscaled[:3]
    )
    yield from _warned("partition values", "decimals have the digits of their type", told)
    yield advise(
        "statistics",
        f"{untold:,} of {latest.files:,} files have none" if untold else "of all files",
        "predicates leave out no such file, and limits do not count it: have the writer collect them",
        holds=untold == 0,
    )
    average = latest.bytes // latest.files if latest.files else 0
    yield advise(
        "file sizes",
        f"{average:,} bytes on average",
        "each file is a request of its own: OPTIMIZE the table",
        holds=latest.files <= MANY_FILES or average >= SMALL_BYTES,
    )
    behind = latest.version - (-1 if latest.checkpoint is None else latest.checkpoint)
    yield advise(
        "checkpoint",
        f"{behind:,} commits behind that of version {latest.checkpoint}"
        if latest.checkpoint is not None
        else f"{behind:,} commits, and none",
        "each is read by every query that begins: have the writer leave checkpoints, or share it with --checkpoint",
        holds=behind <= MANY_COMMITS,
    )


def _of_history(found: Survey) -> Iterator[Finding]:
    said = found.schema.metadata.configuration.get(DELETED_FILES)
    try:
        kept = parse_interval(said, DELETED_FILES_UNSAID)
    except DeltaicError as wrong:
        yield Finding("removed files", "failed", wrong.message, f"correct the property {DELETED_FILES}")
        return
    yield advise(
        "removed files",
        f"VACUUM keeps them for {kept / timedelta(hours=1):,.0f} hours",
        f"whoever reads earlier versions, or reads slowly, misses files then: set {DELETED_FILES} to 7 days or more",
        holds=kept >= DELETED_FILES_UNSAID,
    )
    yield from _warned("history", "records its changes (--history)", missed_by_history(found.schema))


def _warned(check: str, holds: str, missed: Iterator[str]) -> Iterator[Finding]:
    told = list(missed)
    yield from (Finding(check, "warning", text) for text in told)
    if not told:
        yield ok(check, holds)
