"""Check that row filters and hidden columns match the tables, and that recipients have the needed properties."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from deltaic.catalog.admin.filter_rules import Entry
from deltaic.catalog.items import Grant, Recipient, Table
from deltaic.errors import DeltaicError
from deltaic.partition_filters import evaluate, parse

from deltaic_ops.checks.doctor.table_reads import Schemas
from deltaic_ops.inspection.filter_checks import missing_properties, row_filters
from deltaic_ops.inspection.findings import Finding, advise, not_tried, ok
from deltaic_ops.inspection.shared_schema import SharedSchema, check_filter, check_hidden


def check_filters(
    tables: Iterable[Table], grants: Sequence[Grant], recipients: Mapping[str, Recipient], schemas: Schemas
) -> Iterator[Finding]:
    """Check row filters and hidden columns of a share's tables, with all its grants, and recipients by id.

    A failure means that recipients get errors, not too many rows: the server rejects requests with unsuitable filters.
    """
    filtered = [grant for grant in grants if grant.partition_filter]
    for table in tables:
        schema_or_error = schemas.get(table.title)
        schema = schema_or_error if isinstance(schema_or_error, SharedSchema) else None
        if table.partition_filter or table.hidden_columns or filtered:
            if schema is None:
                yield not_tried(f"filters match {table.title}", "its log could not be read")
                continue
            yield from _check_match(table, filtered, schema)
        if table.partition_filter or filtered or table.view_properties:
            yield _check_properties(table, grants, recipients, schema)


def check_folder_access(overlaps: Iterable[tuple[Entry, Table]], uncompared: Iterable[Entry]) -> Iterator[Finding]:
    """Yield findings for folders whose credentials give access to filtered tables, and for unchecked folders."""
    check = "credentials for a folder never include a filtered table"
    findings = [
        Finding(
            check,
            "failed",
            f"those of {entry.title} include all of {filtered.title}: {filtered.location} and {entry.location} overlap",
            f"deltaic table update {entry.title} --access-mode url, or move one of them"
            if isinstance(entry, Table)
            else "move one of them",
        )
        for entry, filtered in overlaps
    ]
    remedy = "allow the operator s3:GetAccessPoint, or use the bucket instead of its access point"
    findings += [
        Finding(check, "warning", f"cannot check {entry.title}: the bucket of {entry.location} is unknown", remedy)
        for entry in uncompared
    ]
    yield from findings or [ok(check, "all catalog entries")]


def _check_match(table: Table, filtered: Sequence[Grant], schema: SharedSchema) -> Iterator[Finding]:
    check, update = f"filters match {table.title}", f"deltaic table update {table.title}"
    problems = [
        (_error_message(check_filter, table.partition_filter, schema), f"{update} --partition-filter ..."),
        (_error_message(check_hidden, table.hidden_columns, schema), f"{update} --hide-columns ..."),
    ]
    for grant in filtered:
        problem = _error_message(check_filter, grant.partition_filter, schema)
        remedy = f"deltaic grant update {grant.recipient} {grant.share} --partition-filter ..."
        problems.append((problem and f"the grant of '{grant.recipient}': {problem}", remedy))
    findings = [Finding(check, "failed", problem, remedy) for problem, remedy in problems if problem]
    yield from findings or [ok(check, "its latest version")]


def _error_message(check: Callable[[Any, SharedSchema], object], value: Any, schema: SharedSchema) -> str:
    """Return the reason why a row filter or hidden columns do not match a table; empty if they do."""
    try:
        if value:
            check(value, schema)
    except DeltaicError as refusal:
        return refusal.message
    return ""


def _check_properties(
    table: Table, grants: Sequence[Grant], recipients: Mapping[str, Recipient], schema: SharedSchema | None
) -> Finding:
    name = table.title
    without, remedies = {}, []
    for grant in grants:
        recipient = recipients.get(grant.recipient_id)
        if recipient is None:  # deleted in the meantime
            continue
        if missing := missing_properties(recipient.properties, table, grant):
            without[recipient.name] = ", ".join(missing)
            options = " ".join(f"--property {property_}=..." for property_ in missing)
            remedies.append(f"deltaic recipient update {recipient.name} {options}")
        elif schema is not None and not _has_values(table, grant, recipient, schema):
            without[recipient.name] = "a value of the column's type"
            remedies.append(f"deltaic recipient update {recipient.name} --property ...")
    missing_by_name = "; ".join(f"'{recipient}' lacks {names}" for recipient, names in without.items())
    return advise(
        f"recipients of {name} have the properties that it needs",
        f"{missing_by_name}: no rows" if missing_by_name else f"{len(grants)} recipients",
        "".join(remedies[:1]),
        holds=not without,
    )


def _has_values(table: Table, grant: Grant, recipient: Recipient, schema: SharedSchema) -> bool:
    """Return whether a recipient's properties fit the types of the filtered columns; ignores other errors."""
    try:
        filters = [parse(text) for text in row_filters(table, grant)]
        return evaluate(filters, recipient.properties, schema.metadata).tests is not None
    except DeltaicError:
        return True
