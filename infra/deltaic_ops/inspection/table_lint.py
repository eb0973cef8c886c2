"""Find problems that recipients of a Delta table would have, from its log, before it is shared."""

from collections.abc import Iterator
from datetime import timedelta

from deltaic.catalog.admin.table_admin import TableAdmin
from deltaic.catalog.items import Table, now
from deltaic.delta.features import PARQUET_MISREADS
from deltaic.delta.property_intervals import DELETED_FILES, DELETED_FILES_DEFAULT, parse_interval
from deltaic.errors import DeltaicError
from msgspec.structs import replace

from deltaic_ops.inspection.client_limits import folder_limits, history_limits, iceberg_limits
from deltaic_ops.inspection.findings import Finding, advise, judge, not_tried, ok
from deltaic_ops.inspection.shared_schema import SchemaReader
from deltaic_ops.inspection.survey import Survey

MANY_COMMITS = 100
"""Number of commits after the last checkpoint above which lint warns, because each reader fetches all of them."""

MANY_FILES, SMALL_BYTES = 100, 8 << 20
"""Lint warns of a table with more files than MANY_FILES whose average size in bytes is below SMALL_BYTES."""

FOLDER_CHECKS = frozenset({"folder", "paths", "string views", "folder alone"})
"""Checks that matter only to recipients with credentials for the folder (access mode `dir`)."""
_HISTORY_CHECKS = frozenset({"history", "removed files"})


def lint(survey: Survey, tables: TableAdmin, location: str, storage: str = "") -> Iterator[Finding]:
    """Yield findings about a surveyed table; `tables` finds overlaps with folders of other shared tables."""
    latest = survey.latest
    yield ok("log", f"version {latest.version}, {latest.files:,} files, {latest.bytes:,} bytes")
    yield from _check_table(survey)
    yield from _check_overlaps(tables, location, storage)


def lint_iceberg(schemas: SchemaReader, table: Table) -> Finding:
    """Check that recipients can read a shared Iceberg table in the ways that its entry offers."""
    try:
        warnings = schemas.check_iceberg(table)
    except DeltaicError as refusal:
        return Finding("metadata", "failed", refusal.message, "correct --location or --glue of its entry")
    if warnings:
        return Finding("metadata", "warning", "; ".join(warnings))
    kinds = {"Delta Sharing clients": "url" in table.access_modes, "Iceberg clients": bool(table.iceberg)}
    return ok("metadata", f"{' and '.join(kind for kind, can in kinds.items() if can)} can read the table")


def unreadable_log(refusal: DeltaicError) -> Finding:
    """Return the finding about a table whose Delta log cannot be read."""
    return Finding("log", "failed", refusal.message, "correct the location or the storage, or repair the table")


def lint_warnings(survey: Survey, table: Table) -> list[str]:
    """Return warnings about a surveyed table that concern its access modes and other settings."""
    ignored = set() if "dir" in table.access_modes else {*FOLDER_CHECKS}
    ignored |= set() if table.history else _HISTORY_CHECKS
    ignored |= set() if "url" in table.access_modes else {"formats"}
    ignored |= set() if table.iceberg else {"Iceberg"}
    problems = (finding for finding in _check_table(survey) if not finding.holds and finding.check not in ignored)
    return [f"{finding.message}: {finding.remedy}" if finding.remedy else finding.message for finding in problems]


def _check_table(survey: Survey) -> Iterator[Finding]:
    yield from _check_formats(survey)
    yield from _check_files(survey)
    yield from _check_history(survey)
    yield from _check_folder(survey)
    problems = iceberg_limits(survey.schema)
    yield from _warn("Iceberg", "Iceberg clients can read the table (--iceberg)", problems)


def _check_folder(survey: Survey) -> Iterator[Finding]:
    yield from _warn("folder", "readable from its folder (--access-mode dir)", folder_limits(survey.schema))
    yield advise(
        "paths",
        f"{survey.odd_paths or 'no'} files have a path with a space or a non-ASCII letter",
        "polars cannot read these files from the folder; QueryBuilder of deltalake and clients with URLs can",
        holds=not survey.odd_paths,
    )
    yield advise(
        "string views",
        f"columns stored as Arrow views: {', '.join(survey.in_views)}" if survey.in_views else "none",
        "pyarrow and to_pyarrow_table of deltalake cannot filter by these columns, but QueryBuilder can: let the "
        "writer cast them to plain strings (polars writes views)",
        holds=not survey.in_views,
    )


def _check_overlaps(tables: TableAdmin, location: str, storage: str) -> Iterator[Finding]:
    """Yield findings about shared folders that overlap with the location of the table."""
    entry = Table(
        name="", schema_name="", share="", id="", share_id="", location=location, storage=storage, created_at=now()
    )
    unfiltered, filtered = replace(entry, access_modes=("url", "dir")), replace(entry, name="-", hidden_columns=("-",))
    try:
        pairs = [*tables.overlaps.conflicts([unfiltered, filtered])]
    except DeltaicError as refusal:
        yield not_tried("folder alone", f"the catalog cannot be read: {refusal.message}")
        return
    problems = [
        f"the folder cannot be shared: it contains {table.location} of '{table.title}', which is filtered"
        if open_ == unfiltered
        else f"the table cannot be filtered: '{open_.title}' shares all files in {open_.location}"
        for open_, table in pairs
    ]
    yield from _warn("folder alone", "no overlap with filtered tables or with shared folders", iter(problems))


def _check_formats(survey: Survey) -> Iterator[Finding]:
    misread = sorted({*survey.latest.features} & PARQUET_MISREADS)
    yield advise(
        "formats",
        f"{', '.join(misread)}: only delta format" if misread else "parquet format and delta format",
        "clients that support only parquet format get an error (the Python client before 1.1, npm, streamed change "
        "feeds of Spark's connector): share a view, or a copy without the feature, with them",
        holds=not misread,
    )


def _check_files(survey: Survey) -> Iterator[Finding]:
    without, latest = survey.without_statistics, survey.latest
    yield judge(
        "data files",
        survey.unread or "all examined files can be read",
        "no client can read the file: restore it, or repair the table (FSCK)",
        holds=not survey.unread,
    )
    unscaled = (
        f"{value} does not have the number of decimals of its type, so delta-kernel rejects the table, and so do "
        "the Python client in delta format, deltalake, polars and duckdb. Let the writer write 1.50 for decimal(10,2)"
        for value in survey.schema.unscaled[:3]
    )
    yield from _warn("partition values", "decimals match the scale of their type", unscaled)
    yield advise(
        "statistics",
        f"{without:,} of {latest.files:,} files have none" if without else "all files have statistics",
        "predicates cannot skip these files, and limits cannot count their rows: let the writer collect statistics",
        holds=without == 0,
    )
    average = latest.bytes // latest.files if latest.files else 0
    yield advise(
        "file sizes",
        f"{average:,} bytes on average",
        "each file costs a request: OPTIMIZE the table",
        holds=latest.files <= MANY_FILES or average >= SMALL_BYTES,
    )
    behind = latest.version - (-1 if latest.checkpoint is None else latest.checkpoint)
    yield advise(
        "checkpoint",
        f"{behind:,} commits after the checkpoint of version {latest.checkpoint}"
        if latest.checkpoint is not None
        else f"{behind:,} commits, no checkpoint",
        "every query reads all these commits: let the writer write checkpoints, or share the table with --checkpoint",
        holds=behind <= MANY_COMMITS,
    )


def _check_history(survey: Survey) -> Iterator[Finding]:
    interval = survey.schema.metadata.configuration.get(DELETED_FILES)
    try:
        retention = parse_interval(interval, DELETED_FILES_DEFAULT)
    except DeltaicError as error:
        yield Finding("removed files", "failed", error.message, f"correct the property {DELETED_FILES}")
        return
    yield advise(
        "removed files",
        f"VACUUM keeps them for {retention / timedelta(hours=1):,.0f} hours",
        f"after that time, reads of earlier versions and slow reads fail: set {DELETED_FILES} to 7 days or more",
        holds=retention >= DELETED_FILES_DEFAULT,
    )
    yield from _warn("history", "the table records changes (--history)", history_limits(survey.schema))


def _warn(check: str, holds: str, problems: Iterator[str]) -> Iterator[Finding]:
    warnings = list(problems)
    yield from (Finding(check, "warning", text) for text in warnings)
    if not warnings:
        yield ok(check, holds)
