"""Checks of capability negotiation: the response format and the capabilities header."""

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import OK, ListedTable
from delta_sharing_conformance.check import CheckSkipped, check_each_table
from delta_sharing_conformance.client import BOTH, DELTA, FORMATS, PARQUET, Reply


@check_each_table("responseFormat", id="without capabilities answers are parquet")
def default_format_is_parquet(table: ListedTable) -> None:
    """Respond to a query without delta-sharing-capabilities in parquet format, or with an error."""
    reply = table.query()
    if reply.status != OK:
        expect.error(reply, 400)
        raise CheckSkipped("every shared table has features that parquet format does not support")
    expect.head(reply, "parquet")


@check_each_table("responseFormat", id="a single format is the answers format")
def response_has_the_requested_format(table: ListedTable) -> None:
    """Respond in the format of responseformat, and name it in delta-sharing-capabilities."""
    for response_format, reply in table.full_replies.items():
        actual = reply.capabilities.get("responseformat")
        expect.that(
            actual == response_format or (actual is None and response_format == "parquet"),
            f"{reply} for responseformat={response_format} with responseformat={actual}",
        )
        expect.head(reply, response_format)


@check_each_table("responseFormat", id="of several formats one that can carry the table")
def response_has_one_of_several_requested_formats(table: ListedTable) -> None:
    """Respond to responseformat=parquet,delta in a format that can represent the table."""
    reply = table.query(BOTH)
    expect.that(reply.format in table.full_replies, f"{reply} in {reply.format} format, which was rejected before")
    expect.head(reply, reply.format)


@check_each_table("responseFormat", id="a format that cannot carry the table is refused")
def unsuitable_format_is_rejected(table: ListedTable) -> None:
    """Return 400 and an error body if the requested format cannot represent the table, never wrong rows."""
    if len(table.full_replies) > 1:
        raise CheckSkipped("both formats can represent every shared table")
    for response_format, capabilities in FORMATS.items():
        if response_format not in table.full_replies:
            expect.error(table.query(capabilities), 400)
            expect.error(table.metadata(capabilities), 400)


@check_each_table("readerFeatures", id="tables with features want them in readerfeatures")
def missing_reader_features_are_rejected(table: ListedTable) -> None:
    """Return 400 if readerfeatures lacks a table feature that is required to read the files."""
    if "delta" not in table.full_replies or not any(file.vector for file in table.files("delta")):
        raise CheckSkipped("no shared table has deletion vectors")
    expect.error(table.query("responseformat=delta"), 400)
    expect.error(table.query("responseformat=delta;readerfeatures=timestampntz"), 400)


@check_each_table("Delta Sharing Capabilities Header", max_tables=3)
def capabilities_are_case_insensitive(table: ListedTable) -> None:
    """Process keys and values of the header case-insensitively, and ignore unknown keys."""
    for response_format, capabilities in table.formats:
        for text in (capabilities.upper(), f"nosuchthing=1;{capabilities}"):
            reply = expect.ok(table.query(text))
            expect.that(reply.format == response_format, f"{reply} for {text[:40]} in {reply.format} format")


@check_each_table("includeEndStreamAction", id="endStreamAction comes when it was agreed")
def endStreamAction_is_sent_when_negotiated(table: ListedTable) -> None:  # noqa: N802 -- the line's name
    """Send endStreamAction as the last line if, and only if, the response header confirms it."""
    for response_format, capabilities in table.formats:
        expect.that(not table.full_replies[response_format].end, "endStreamAction was sent without a request")
        reply = expect.ok(table.query(f"{capabilities};includeEndStreamAction=true"))
        confirmed = reply.capabilities.get("includeendstreamaction") == "true"
        present = "endStreamAction" in reply.kinds[-1:]
        expect.that(confirmed == present, f"{reply}: endStreamAction sent: {present}, confirmed: {confirmed}")


@check_each_table("EndStreamAction", id="endStreamAction tells when the first URL dies")
def endStreamAction_has_the_earliest_URL_expiration(table: ListedTable) -> None:  # noqa: N802 -- the line's name
    """Set minUrlExpirationTimestamp to the smallest expirationTimestamp of the response."""
    _, capabilities = table.formats[0]
    reply = expect.ok(table.query(f"{capabilities};includeEndStreamAction=true"))
    earliest = reply.end.get("minUrlExpirationTimestamp")
    expirations = [file.expiration for file in expect.files(reply) if file.expiration is not None]
    if earliest is None or not expirations:
        raise CheckSkipped("no response has expiration times of URLs")
    expect.that(earliest <= min(expirations), f"{reply} with minUrlExpirationTimestamp after a URL expires")


@check_each_table("File ID Hash Header", max_tables=3, id="fileidhash is echoed and kept")
def fileidhash_is_echoed_and_applied(table: ListedTable) -> None:
    """Return fileidhash parquet or delta in lower case with stable ids; return 400 for other values."""
    capabilities = PARQUET if "parquet" in table.full_replies else DELTA
    first = _query_with_hash(table, capabilities, "DELTA")
    if "fileidhash" not in first.headers:
        raise CheckSkipped("the server does not support the header fileidhash")
    for value, scheme in (("DELTA", "delta"), ("parquet", "parquet")):
        replies = [_query_with_hash(table, capabilities, value) for _ in range(2)]
        actual = replies[0].headers.get("fileidhash")
        expect.that(actual == scheme, f"{replies[0]} for fileidhash {value} with fileidhash {actual}")
        ids = [sorted(file.id for file in expect.files(reply)) for reply in replies]
        expect.same_ids(f"the second query with fileidhash {scheme}", ids[1], ids[0])
    expect.error(_query_with_hash(table, capabilities, "sha512"), 400)


def _query_with_hash(table: ListedTable, capabilities: str, scheme: str) -> Reply:
    headers = {"fileidhash": scheme}
    return table.client.ask("POST", f"{table.path}/query", body={}, capabilities=capabilities, headers=headers)
