"""Whether what keeps rows and columns back still fits the tables, and who sees nothing for want of a property."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from deltaic.catalog.items import Grant, Recipient, Table
from deltaic.errors import DeltaicError
from deltaic.partition_filters import evaluate, parse

from deltaic_ops.doctor.findings import Finding, judged, not_asked, ok
from deltaic_ops.narrowing import full_name, lacked
from deltaic_ops.shared_schema import SharedSchema, check_filter, check_hidden

Read = Callable[[Table], SharedSchema]
"""Reads the columns of a table; raises DeltaicError with the reason."""


def filters(
    tables: Iterable[Table], grants: Sequence[Grant], recipients: Mapping[str, Recipient], read: Read
) -> Iterator[Finding]:
    """Check the tables of one share, of which `grants` are all, and `recipients` by their ids those who hold it.

    Only tables are read of which rows or columns are kept back. The server refuses to answer for a filter that does not
    fit, so nobody sees too much meanwhile.
    """
    for table in tables:
        own = bool(table.partition_filter or table.hidden_columns)
        narrowed = [grant for grant in grants if grant.partition_filter]
        schema = None
        if own or narrowed:
            try:
                schema = read(table)
            except DeltaicError as refusal:
                yield not_asked(f"what narrows {full_name(table)} fits it", refusal.message)
                continue
            yield from _fits(table, narrowed, schema)
        if table.partition_filter or narrowed or table.view_properties:
            yield _sees(table, grants, recipients, schema)


def _fits(table: Table, narrowed: Sequence[Grant], schema: SharedSchema) -> Iterator[Finding]:
    name = full_name(table)
    check = f"what narrows {name} fits it"
    wrong = []
    if table.partition_filter and (why := _why(lambda: check_filter(table.partition_filter, schema))):
        wrong.append(Finding(check, "failed", why, f"deltaic table update {name} --partition-filter ..."))
    if why := _why(lambda: check_hidden(table.hidden_columns, schema)):
        wrong.append(Finding(check, "failed", why, f"deltaic table update {name} --hide-columns ..."))
    for grant in narrowed:
        if why := _why(lambda text=grant.partition_filter: check_filter(text, schema)):  # type: ignore[misc]
            remedy = f"deltaic grant update {grant.recipient} {grant.share} --partition-filter ..."
            wrong.append(Finding(check, "failed", f"the grant of '{grant.recipient}': {why}", remedy))
    yield from wrong or [ok(check, "its latest version")]


def _why(look: Callable[[], object]) -> str:
    """Return what is wrong; empty if nothing is."""
    try:
        look()
    except DeltaicError as refusal:
        return refusal.message
    return ""


def _sees(
    table: Table, grants: Sequence[Grant], recipients: Mapping[str, Recipient], schema: SharedSchema | None
) -> Finding:
    """Check that whoever holds a table has every property that its rows are chosen by."""
    name = full_name(table)
    without = {}
    for grant in grants:
        recipient = recipients.get(grant.recipient_id)
        if recipient is None:  # deleted meanwhile
            continue
        if missing := lacked(recipient, table, grant):
            without[recipient.name] = ", ".join(missing)
        elif schema is not None and not _has_values(table, grant, recipient, schema):
            without[recipient.name] = "a value that fits the column"
    said = "; ".join(f"'{who}' lacks {what}" for who, what in without.items())
    return judged(
        f"who holds {name} has the properties that it asks for",
        f"{said}: no rows" if said else f"{len(grants)} recipients",
        f"deltaic recipient update {next(iter(without), '')} --property ...",
        holds=not without,
        otherwise="warning",
    )


def _has_values(table: Table, grant: Grant, recipient: Recipient, schema: SharedSchema) -> bool:
    """Tell whether the properties hold values of the columns' types; what does not fit the table is told elsewhere."""
    texts = [text for text in (table.partition_filter, grant.partition_filter) if text]
    try:
        return evaluate([parse(text) for text in texts], recipient.properties, schema.metadata).tests is not None
    except DeltaicError:
        return True
