"""Checks of versions and metadata of tables."""

from datetime import UTC, datetime, timedelta

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check, on_each
from delta_sharing_conformance.client import BOTH, DELTA, PARQUET
from delta_sharing_conformance.shared import ListedTable, Shared

NOT_OFFERED = {404, 405, 501}
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


@check("Query Table Version")
def tells_the_version(shared: Shared) -> str:
    """Answer GET .../version with 200 and the header Delta-Table-Version."""

    def ask(table: ListedTable) -> None:
        expect.that(expect.answered(table.at).version is not None, f"{table.at} without Delta-Table-Version")

    return on_each(shared.readable, ask, "can be queried")


@check("Query Table Version")
def HEAD_tells_the_same_version(shared: Shared) -> str:  # noqa: N802 -- the method's name
    """Answer the deprecated HEAD .../tables/{table} as GET .../version, or not at all."""

    def ask(table: ListedTable) -> None:
        reply = table.client.ask("HEAD", table.path)
        if reply.status in NOT_OFFERED:
            raise NotTried(f"HEAD is not offered ({reply.status}); it is deprecated")
        expect.that(expect.answered(reply).version == table.latest, f"{reply} with version {reply.version}")

    return on_each(shared.readable, ask, "can be queried")


@check("Query Table Version")
def startingTimestamp_finds_the_first_version_at_or_after_it(shared: Shared) -> str:  # noqa: N802 -- the parameter
    """Give the earliest version whose commit is at or after startingTimestamp, also where it is that very moment."""

    def ask(table: ListedTable) -> None:
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

    return on_each(shared.readable, ask, HISTORY)


@check("Timestamp Format")
def refuses_timestamps_that_are_none(shared: Shared) -> str:
    """Answer 400 with an error body to a timestamp that is no ISO 8601 time."""

    def ask(table: ListedTable) -> None:
        first_version(table)
        expect.refused(table.client.get(f"{table.path}/version", startingTimestamp="yesterday"), 400)
        expect.refused(table.metadata(BOTH, timestamp="yesterday"), 400)
        expect.refused(table.query(BOTH, timestamp="yesterday"), 400)

    return on_each(shared.readable, ask, HISTORY)


@check("Metadata")
def metadata_is_two_lines_in_parquet_format(shared: Shared) -> str:
    """Answer .../metadata without capabilities in parquet format: protocol and metaData with their required keys."""
    return _metadata(shared, "parquet", None)


@check("Metadata in Delta Format")
def metadata_is_two_lines_in_delta_format(shared: Shared) -> str:
    """Answer .../metadata with responseformat=delta by deltaProtocol and deltaMetadata, actions as Delta has them."""
    return _metadata(shared, "delta", DELTA)


def _metadata(shared: Shared, response_format: str, capabilities: str | None) -> str:
    def ask(table: ListedTable) -> None:
        if response_format not in table.whole:
            raise NotTried(f"no table that the profile sees can be had in {response_format} format")
        reply = table.metadata(capabilities)
        expect.head(reply, response_format)
        extra = [kind for kind in reply.kinds[2:] if kind != "endStreamAction"]
        expect.that(not extra, f"{reply} with more lines: {extra[:3]}")
        expect.that(reply.version == table.latest, f"{reply} with version {reply.version}, not {table.latest}")

    return on_each(shared.readable, ask, "can be queried")


@check("Query Table Metadata")
def metadata_and_query_have_the_same_schema(shared: Shared) -> str:
    """Give the same schemaString at .../metadata and at .../query."""

    def ask(table: ListedTable) -> None:
        for response_format, reply in table.whole.items():
            told = expect.lines(table.metadata(PARQUET if response_format == "parquet" else DELTA))[1]["metaData"]
            queried = expect.lines(reply)[1]["metaData"]
            schemas = [one.get("deltaMetadata", one).get("schemaString") for one in (told, queried)]
            expect.that(schemas[0] == schemas[1], f"{reply.request} has another schemaString than .../metadata")

    return on_each(shared.readable, ask, "can be queried")


@check("Query Table Metadata")
def metadata_of_a_version(shared: Shared) -> str:
    """Answer version and timestamp with the metadata of that version, and 400 to both or to one that is not there."""

    def ask(table: ListedTable) -> None:
        for version in sorted({first_version(table), table.latest}):
            reply = expect.answered(table.metadata(BOTH, version=version))
            expect.that(reply.version == version, f"{reply} for version {version} with version {reply.version}")
        for version, at in sorted(table.moments.items())[-1:]:
            reply = expect.answered(table.metadata(BOTH, timestamp=iso(at)))
            expect.that(reply.version == version, f"{reply} for the moment of {version} with version {reply.version}")
        expect.refused(table.metadata(BOTH, version=table.latest + 1000), 400)
        expect.refused(table.metadata(BOTH, version=table.latest, timestamp="2022-01-01T00:00:00Z"), 400)

    return on_each(shared.readable, ask, HISTORY)


@check("Query Table Metadata")
def history_that_is_not_shared_is_refused(shared: Shared) -> str:
    """Answer 400 or 403 with an error body to versions, timestamps and changes where history is not shared."""

    def ask(table: ListedTable) -> None:
        if table.first is not None:
            raise NotTried("every table that the profile sees shares its history")
        expect.refused(table.metadata(BOTH, version=table.latest), 400, 403)
        expect.refused(table.query(BOTH, version=table.latest), 400, 403)
        expect.refused(table.query(BOTH, startingVersion=table.latest), 400, 403)
        expect.refused(table.changes(BOTH, startingVersion=table.latest), 400, 403)

    return on_each(shared.readable, ask, "can be queried")
