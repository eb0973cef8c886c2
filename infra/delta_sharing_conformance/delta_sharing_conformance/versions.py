"""Checks of versions and metadata of tables."""

from datetime import UTC, datetime, timedelta

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check_each_table
from delta_sharing_conformance.client import BOTH, DELTA, FORMATS
from delta_sharing_conformance.shared import ListedTable

NOT_OFFERED = {404, 405, 501}
"""What a server answers that does not have an endpoint."""
HISTORY = "shares its history"


def iso(milliseconds: int) -> str:
    """Write a time in the protocol's Timestamp Format; a fraction only where there is one."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds").replace("+00:00", "Z")


def first_version(table: ListedTable) -> int:
    """Return the first version that can be queried; raises NotTried where history is not shared."""
    if table.first is None:
        raise NotTried(f"no table that the profile sees {HISTORY}")
    return table.first


@check_each_table("Query Table Version")
def tells_the_version(table: ListedTable) -> None:
    """Answer GET .../version with 200 and the header Delta-Table-Version."""
    expect.that(expect.answered(table.at).version is not None, f"{table.at} without Delta-Table-Version")


@check_each_table("Query Table Version")
def HEAD_tells_the_same_version(table: ListedTable) -> None:  # noqa: N802 -- the method's name
    """Answer the deprecated HEAD .../tables/{table} as GET .../version, or not at all."""
    reply = table.client.ask("HEAD", table.path)
    if reply.status in NOT_OFFERED:
        raise NotTried(f"HEAD is not offered ({reply.status}); it is deprecated")
    expect.that(expect.answered(reply).version == table.latest, f"{reply} with version {reply.version}")


@check_each_table("Query Table Version", HISTORY)
def startingTimestamp_finds_the_first_version_at_or_after_it(table: ListedTable) -> None:  # noqa: N802 -- the parameter
    """Give the earliest version whose commit is at or after startingTimestamp, also where it is that very moment."""
    first_version(table)
    known = {version: at for version, at in table.moments.items() if version > (table.first or 0)}
    if not known:
        raise NotTried("no table's lines tell when a version was committed")
    for version, at in sorted(known.items()):
        reply = table.client.get(f"{table.path}/version", startingTimestamp=iso(at))
        expect.answered(reply)
        expect.that(
            reply.version == version, f"the moment of version {version} ({iso(at)}) gives version {reply.version}"
        )


@check_each_table("Timestamp Format", HISTORY)
def refuses_timestamps_that_are_none(table: ListedTable) -> None:
    """Answer 400 with an error body to a timestamp that is no ISO 8601 time."""
    first_version(table)
    expect.refused(table.client.get(f"{table.path}/version", startingTimestamp="yesterday"), 400)
    expect.refused(table.metadata(BOTH, timestamp="yesterday"), 400)
    expect.refused(table.query(BOTH, timestamp="yesterday"), 400)


@check_each_table("Metadata")
def metadata_is_two_lines_in_parquet_format(table: ListedTable) -> None:
    """Answer .../metadata without capabilities in parquet format: protocol and metaData with their required keys."""
    _metadata(table, "parquet", None)


@check_each_table("Metadata in Delta Format")
def metadata_is_two_lines_in_delta_format(table: ListedTable) -> None:
    """Answer .../metadata with responseformat=delta by deltaProtocol and deltaMetadata, actions as Delta has them."""
    _metadata(table, "delta", DELTA)


def _metadata(table: ListedTable, response_format: str, capabilities: str | None) -> None:
    if response_format not in table.whole:
        raise NotTried(f"no table that the profile sees can be had in {response_format} format")
    reply = table.metadata(capabilities)
    expect.head(reply, response_format)
    extra = [kind for kind in reply.kinds[2:] if kind != "endStreamAction"]
    expect.that(not extra, f"{reply} with more lines: {extra[:3]}")
    expect.that(reply.version == table.latest, f"{reply} with version {reply.version}, not {table.latest}")


@check_each_table("Query Table Metadata")
def metadata_and_query_have_the_same_schema(table: ListedTable) -> None:
    """Give the same schemaString at .../metadata and at .../query."""
    for response_format, reply in table.whole.items():
        told = expect.lines(table.metadata(FORMATS[response_format]))[1]["metaData"]
        queried = expect.lines(reply)[1]["metaData"]
        schemas = [one.get("deltaMetadata", one).get("schemaString") for one in (told, queried)]
        expect.that(schemas[0] == schemas[1], f"{reply.request} has another schemaString than .../metadata")


@check_each_table("Query Table Metadata", HISTORY)
def metadata_of_a_version(table: ListedTable) -> None:
    """Answer version and timestamp with the metadata of that version, and 400 to both or to one that is not there."""
    for version in sorted({first_version(table), table.latest}):
        reply = expect.answered(table.metadata(BOTH, version=version))
        expect.that(reply.version == version, f"{reply} for version {version} with version {reply.version}")
    for version, at in sorted(table.moments.items())[-1:]:
        reply = expect.answered(table.metadata(BOTH, timestamp=iso(at)))
        expect.that(reply.version == version, f"{reply} for the moment of {version} with version {reply.version}")
    expect.refused(table.metadata(BOTH, version=table.latest + 1000), 400)
    expect.refused(table.metadata(BOTH, version=table.latest, timestamp="2022-01-01T00:00:00Z"), 400)


@check_each_table("Query Table Metadata")
def history_that_is_not_shared_is_refused(table: ListedTable) -> None:
    """Answer 400 or 403 with an error body to versions, timestamps and changes where history is not shared."""
    if table.first is not None:
        raise NotTried("every table that the profile sees shares its history")
    expect.refused(table.metadata(BOTH, version=table.latest), 400, 403)
    expect.refused(table.query(BOTH, version=table.latest), 400, 403)
    expect.refused(table.query(BOTH, startingVersion=table.latest), 400, 403)
    expect.refused(table.changes(BOTH, startingVersion=table.latest), 400, 403)
