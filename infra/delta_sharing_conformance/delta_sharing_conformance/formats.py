"""Checks of capability negotiation: which format an answer has, and what its header says."""

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check_each_table
from delta_sharing_conformance.client import BOTH, DELTA, FORMATS, PARQUET, Reply
from delta_sharing_conformance.shared import OK, ListedTable


@check_each_table("responseFormat")
def without_capabilities_answers_are_parquet(table: ListedTable) -> None:
    """Answer a query without the header delta-sharing-capabilities in parquet format, or refuse it."""
    reply = table.query()
    if reply.status != OK:
        expect.refused(reply, 400)
        raise NotTried("every table has features that parquet format lacks")
    expect.head(reply, "parquet")


@check_each_table("responseFormat")
def a_single_format_is_the_answers_format(table: ListedTable) -> None:
    """Answer in the one format that responseformat names, and say so in delta-sharing-capabilities."""
    for response_format, reply in table.whole.items():
        said = reply.capabilities.get("responseformat")
        expect.that(
            said == response_format or (said is None and response_format == "parquet"),
            f"{reply} to responseformat={response_format} with responseformat={said}",
        )
        expect.head(reply, response_format)


@check_each_table("responseFormat")
def of_several_formats_one_that_can_carry_the_table(table: ListedTable) -> None:
    """Answer responseformat=parquet,delta in one of both, in delta where parquet format cannot carry the table."""
    reply = table.query(BOTH)
    expect.that(reply.format in table.whole, f"{reply} in {reply.format} format, which is refused by itself")
    expect.head(reply, reply.format)


@check_each_table("responseFormat")
def a_format_that_cannot_carry_the_table_is_refused(table: ListedTable) -> None:
    """Answer 400 with an error body where the one format asked for cannot carry the table, never wrong rows."""
    if len(table.whole) > 1:
        raise NotTried("both formats can carry every table that the profile sees")
    for response_format, capabilities in FORMATS.items():
        if response_format not in table.whole:
            expect.refused(table.query(capabilities), 400)
            expect.refused(table.metadata(capabilities), 400)


@check_each_table("readerFeatures")
def tables_with_features_want_them_in_readerfeatures(table: ListedTable) -> None:
    """Refuse delta format with 400 to a client that does not name a feature which the table's files need."""
    if "delta" not in table.whole or not any(file.vector for file in table.files("delta")):
        raise NotTried("no table that the profile sees has deletion vectors")
    expect.refused(table.query("responseformat=delta"), 400)
    expect.refused(table.query("responseformat=delta;readerfeatures=timestampntz"), 400)


@check_each_table("Delta Sharing Capabilities Header", most=3)
def capabilities_are_case_insensitive(table: ListedTable) -> None:
    """Process keys and values of the header in any case, and leave out keys that are not known."""
    for response_format, capabilities in table.formats:
        for text in (capabilities.upper(), f"nosuchthing=1;{capabilities}"):
            reply = expect.answered(table.query(text))
            expect.that(reply.format == response_format, f"{reply} to {text[:40]} in {reply.format} format")


@check_each_table("includeEndStreamAction")
def endStreamAction_comes_when_it_was_agreed(table: ListedTable) -> None:  # noqa: N802 -- the line's name
    """End with endStreamAction where the answer's header says includeendstreamaction=true, and not unasked."""
    for response_format, capabilities in table.formats:
        expect.that(not table.whole[response_format].end, "a query that did not ask ends with endStreamAction")
        reply = expect.answered(table.query(f"{capabilities};includeEndStreamAction=true"))
        agreed = reply.capabilities.get("includeendstreamaction") == "true"
        there = "endStreamAction" in reply.kinds[-1:]
        expect.that(agreed == there, f"{reply} {'with' if there else 'without'} endStreamAction, agreed: {agreed}")


@check_each_table("EndStreamAction")
def endStreamAction_tells_when_the_first_URL_dies(table: ListedTable) -> None:  # noqa: N802 -- the line's name
    """Give as minUrlExpirationTimestamp the least of the answer's expirationTimestamps."""
    _, capabilities = table.formats[0]
    reply = expect.answered(table.query(f"{capabilities};includeEndStreamAction=true"))
    told = reply.end.get("minUrlExpirationTimestamp")
    ends = [file.expiration for file in expect.files(reply) if file.expiration is not None]
    if told is None or not ends:
        raise NotTried("no answer tells when its URLs end")
    expect.that(told <= min(ends), f"{reply} with minUrlExpirationTimestamp after a URL's end")


@check_each_table("File ID Hash Header", most=3)
def fileidhash_is_echoed_and_kept(table: ListedTable) -> None:
    """Echo a fileidhash of parquet or delta in lower case and derive the same ids each time; refuse others with 400."""
    capabilities = PARQUET if "parquet" in table.whole else DELTA
    first = _hashed(table, capabilities, "DELTA")
    if "fileidhash" not in first.headers:
        raise NotTried("the server does not know the header fileidhash")
    for sent, scheme in (("DELTA", "delta"), ("parquet", "parquet")):
        replies = [_hashed(table, capabilities, sent) for _ in range(2)]
        said = replies[0].headers.get("fileidhash")
        expect.that(said == scheme, f"{replies[0]} to fileidhash {sent} with fileidhash {said}")
        ids = [sorted(file.id for file in expect.files(reply)) for reply in replies]
        expect.same(f"fileidhash {scheme} the second time", ids[1], ids[0])
    expect.refused(_hashed(table, capabilities, "sha512"), 400)


def _hashed(table: ListedTable, capabilities: str, scheme: str) -> Reply:
    headers = {"fileidhash": scheme}
    return table.client.ask("POST", f"{table.path}/query", body={}, capabilities=capabilities, headers=headers)
