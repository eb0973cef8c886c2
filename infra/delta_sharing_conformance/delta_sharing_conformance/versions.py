"""Checks of versions and metadata of tables."""

from datetime import UTC, datetime, timedelta

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import ListedTable
from delta_sharing_conformance.check import CheckSkipped, check_each_table
from delta_sharing_conformance.client import BOTH, DELTA, FORMATS

NOT_OFFERED = {404, 405, 501}
"""HTTP statuses with which servers respond if they do not support an endpoint."""
HISTORY = "shares its history"


def iso_time(milliseconds: int) -> str:
    """Format milliseconds since the epoch in the protocol's Timestamp Format."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return time.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds").replace("+00:00", "Z")


def require_history(table: ListedTable) -> int:
    """Return the earliest version of a table that can be queried; raises CheckSkipped if history is not shared."""
    if table.first_version is None:
        raise CheckSkipped(f"no shared table {HISTORY}")
    return table.first_version


@check_each_table("Query Table Version", id="tells the version")
def version_is_returned(table: ListedTable) -> None:
    """Respond to GET .../version with 200 and the header Delta-Table-Version."""
    expect.that(expect.ok(table.version_reply).version is not None, "a response without Delta-Table-Version")


@check_each_table("Query Table Version", id="HEAD tells the same version")
def HEAD_returns_the_same_version(table: ListedTable) -> None:  # noqa: N802 -- the method's name
    """Respond to the deprecated HEAD .../tables/{table} like GET .../version, or with 404, 405 or 501."""
    reply = table.client.ask("HEAD", table.path)
    if reply.status in NOT_OFFERED:
        raise CheckSkipped(f"the server does not support HEAD ({reply.status}), which is deprecated")
    expect.that(expect.ok(reply).version == table.latest, f"{reply} with version {reply.version}")


@check_each_table("Query Table Version", HISTORY)
def startingTimestamp_finds_the_first_version_at_or_after_it(table: ListedTable) -> None:  # noqa: N802 -- the parameter
    """Return the earliest version with a commit time at or after startingTimestamp, including the exact time."""
    require_history(table)
    times = {version: time for version, time in table.commit_times.items() if version > (table.first_version or 0)}
    if not times:
        raise CheckSkipped("no response has commit times")
    for version, time in sorted(times.items()):
        reply = table.client.get(f"{table.path}/version", startingTimestamp=iso_time(time))
        expect.ok(reply)
        message = f"the commit time of version {version} ({iso_time(time)}) returns version {reply.version}"
        expect.that(reply.version == version, message)


@check_each_table("Timestamp Format", HISTORY, id="refuses timestamps that are none")
def invalid_timestamps_are_rejected(table: ListedTable) -> None:
    """Return 400 and an error body for a timestamp that is not in ISO 8601 format."""
    require_history(table)
    expect.error(table.client.get(f"{table.path}/version", startingTimestamp="yesterday"), 400)
    expect.error(table.metadata(BOTH, timestamp="yesterday"), 400)
    expect.error(table.query(BOTH, timestamp="yesterday"), 400)


@check_each_table("Metadata")
def metadata_is_two_lines_in_parquet_format(table: ListedTable) -> None:
    """Respond to .../metadata without capabilities in parquet format: protocol and metaData with required keys."""
    _metadata(table, "parquet", None)


@check_each_table("Metadata in Delta Format")
def metadata_is_two_lines_in_delta_format(table: ListedTable) -> None:
    """Respond to .../metadata and responseformat=delta with Delta actions in deltaProtocol and deltaMetadata."""
    _metadata(table, "delta", DELTA)


def _metadata(table: ListedTable, response_format: str, capabilities: str | None) -> None:
    if response_format not in table.full_replies:
        raise CheckSkipped(f"no shared table can be read in {response_format} format")
    reply = table.metadata(capabilities)
    expect.head(reply, response_format)
    extra = [kind for kind in reply.kinds[2:] if kind != "endStreamAction"]
    expect.that(not extra, f"{reply} with additional lines: {extra[:3]}")
    expect.that(reply.version == table.latest, f"{reply} with version {reply.version}, not {table.latest}")


@check_each_table("Query Table Metadata")
def metadata_and_query_have_the_same_schema(table: ListedTable) -> None:
    """Return the same schemaString from .../metadata and .../query."""
    for response_format, reply in table.full_replies.items():
        described = expect.lines(table.metadata(FORMATS[response_format]))[1]["metaData"]
        queried = expect.lines(reply)[1]["metaData"]
        schemas = [fields.get("deltaMetadata", fields).get("schemaString") for fields in (described, queried)]
        expect.that(schemas[0] == schemas[1], f"{reply.request} and .../metadata have different schemaStrings")


@check_each_table("Query Table Metadata", HISTORY, id="metadata of a version")
def metadata_of_a_version_is_returned(table: ListedTable) -> None:
    """Return the metadata of a version or timestamp, and 400 for both or for an unknown version."""
    for version in sorted({require_history(table), table.latest}):
        reply = expect.ok(table.metadata(BOTH, version=version))
        expect.that(reply.version == version, f"{reply} for version {version} with version {reply.version}")
    for version, time in sorted(table.commit_times.items())[-1:]:
        reply = expect.ok(table.metadata(BOTH, timestamp=iso_time(time)))
        message = f"{reply} for the commit time of version {version} with version {reply.version}"
        expect.that(reply.version == version, message)
    expect.error(table.metadata(BOTH, version=table.latest + 1000), 400)
    expect.error(table.metadata(BOTH, version=table.latest, timestamp="2022-01-01T00:00:00Z"), 400)


@check_each_table("Query Table Metadata", id="history that is not shared is refused")
def requests_for_unshared_history_are_rejected(table: ListedTable) -> None:
    """Return 400 or 403 and an error body for versions, ranges and changes if history is not shared."""
    if table.first_version is not None:
        raise CheckSkipped("every shared table shares its history")
    expect.error(table.metadata(BOTH, version=table.latest), 400, 403)
    expect.error(table.query(BOTH, version=table.latest), 400, 403)
    expect.error(table.query(BOTH, startingVersion=table.latest), 400, 403)
    expect.error(table.changes(BOTH, startingVersion=table.latest), 400, 403)
