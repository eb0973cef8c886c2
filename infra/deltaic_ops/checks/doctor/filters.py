"""Whether what keeps rows and columns back still fits the tables, and who sees nothing for want of a property."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from deltaic.catalog.admin.filter_rules import Entry
from deltaic.catalog.items import Grant, Recipient, Table
from deltaic.errors import DeltaicError
from deltaic.partition_filters import evaluate, parse

from deltaic_ops.checks.doctor.reading import Heads
from deltaic_ops.inspection.filter_checks import lacked, row_filters
from deltaic_ops.inspection.findings import Finding, advise, not_asked, ok
from deltaic_ops.inspection.shared_schema import SharedSchema, check_filter, check_hidden


def filters(
    tables: Iterable[Table], grants: Sequence[Grant], recipients: Mapping[str, Recipient], heads: Heads
) -> Iterator[Finding]:
    """Check the tables of one share, of which `grants` are all, and `recipients` by their ids those who hold it.

    The server refuses to answer for a filter that does not fit, so nobody sees too much meanwhile.
    """
    for table in tables:
        own = bool(table.partition_filter or table.hidden_columns)
        filtered = [grant for grant in grants if grant.partition_filter]
        schema = None
        if own or filtered:
            head = heads.get(table.title)
            if not isinstance(head, SharedSchema):
                yield not_asked(f"what narrows {table.title} fits it", "its log could not be read")
                continue
            schema = head
            yield from _fits(table, filtered, schema)
        if table.partition_filter or filtered or table.view_properties:
            yield _sees(table, grants, recipients, schema)


def folders(pairs: Iterable[tuple[Entry, Table]], uncompared: Iterable[Entry]) -> Iterator[Finding]:
    """Name each folder that is shared whole and opens a table of which not all is, and each that is `uncompared`."""
    check = "credentials for a folder open no table of which not all is shared"
    wrong = [
        Finding(
            check,
            "failed",
            f"those of {wide.title} read all of {narrow.title}: {narrow.location} and {wide.location} lie "
            "one in the other",
            f"deltaic table update {wide.title} --access-mode url; or move one of them"
            if isinstance(wide, Table)
            else "move one of them",
        )
        for wide, narrow in pairs
    ]
    remedy = "give the operator s3:GetAccessPoint, or name the bucket itself"
    wrong += [
        Finding(check, "warning", f"{entry.title} cannot be compared: no bucket is known of {entry.location}", remedy)
        for entry in uncompared
    ]
    yield from wrong or [ok(check, "the whole catalog")]


def _fits(table: Table, filtered: Sequence[Grant], schema: SharedSchema) -> Iterator[Finding]:
    name = table.title
    check = f"what narrows {name} fits it"
    wrong = []
    if table.partition_filter and (why := _why(lambda: check_filter(table.partition_filter, schema))):
        wrong.append(Finding(check, "failed", why, f"deltaic table update {name} --partition-filter ..."))
    if why := _why(lambda: check_hidden(table.hidden_columns, schema)):
        wrong.append(Finding(check, "failed", why, f"deltaic table update {name} --hide-columns ..."))
    for grant in filtered:
        if why := _why(lambda text=grant.partition_filter: check_filter(text, schema)):  # type: ignore[misc]
            remedy = f"deltaic grant update {grant.recipient} {grant.share} --partition-filter ..."
            wrong.append(Finding(check, "failed", f"the grant of '{grant.recipient}': {why}", remedy))
    yield from wrong or [ok(check, "its latest version")]


def _why(look: Callable[[], object]) -> str:
    try:
        look()
    except DeltaicError as refusal:
        return refusal.message
    return ""


def _sees(
    table: Table, grants: Sequence[Grant], recipients: Mapping[str, Recipient], schema: SharedSchema | None
) -> Finding:
    name = table.title
    without, remedies = {}, []
    for grant in grants:
        recipient = recipients.get(grant.recipient_id)
        if recipient is None:  # deleted meanwhile
            continue
        if missing := lacked(recipient.properties, table, grant):
            without[recipient.name] = ", ".join(missing)
            given = " ".join(f"--property {property_}=..." for property_ in missing)
            remedies.append(f"deltaic recipient update {recipient.name} {given}")
        elif schema is not None and not _has_values(table, grant, recipient, schema):
            without[recipient.name] = "a value that fits the column"
            remedies.append(f"deltaic recipient update {recipient.name} --property ...")
    said = "; ".join(f"'{who}' lacks {what}" for who, what in without.items())
    return advise(
        f"who holds {name} has the properties that it asks for",
        f"{said}: no rows" if said else f"{len(grants)} recipients",
        "".join(remedies[:1]),
        holds=not without,
    )


def _has_values(table: Table, grant: Grant, recipient: Recipient, schema: SharedSchema) -> bool:
    """Tell whether the properties hold values of the columns' types; what does not fit the table is told elsewhere."""
    try:
        filters = [parse(text) for text in row_filters(table, grant)]
        return evaluate(filters, recipient.properties, schema.metadata).tests is not None
    except DeltaicError:
        return True
