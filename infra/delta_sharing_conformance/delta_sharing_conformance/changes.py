"""Checks of ranges of versions: data changes since a version, and the change data feed."""

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import Fails, NotTried, check, on_each
from delta_sharing_conformance.client import BOTH, DELTA, PARQUET
from delta_sharing_conformance.shared import OK, ListedTable, Shared, walk
from delta_sharing_conformance.versions import HISTORY, first_version, iso

FEED = "has a change data feed that its reader may see"
CAPABILITIES = {"parquet": PARQUET, "delta": DELTA}
RANGES = {"parquet": ("add", "remove", "metaData"), "delta": ("file", "metaData")}
FEEDS = {"parquet": ("add", "remove", "cdf", "metaData"), "delta": ("file", "metaData")}


@check("Data Change Files")
def a_range_in_parquet_format(shared: Shared) -> str:
    """Answer startingVersion by add, remove and metaData lines of those versions, each with version and timestamp."""
    return _range(shared, "parquet")


@check("File in Delta Format")
def a_range_in_delta_format(shared: Shared) -> str:
    """Answer startingVersion by file lines of those versions, each with version, timestamp and deltaSingleAction."""
    return _range(shared, "delta")


def _range(shared: Shared, response_format: str) -> str:
    def ask(table: ListedTable) -> None:
        first = first_version(table)
        if response_format not in table.whole:
            raise NotTried(f"no table with history can be had in {response_format} format")
        capabilities = CAPABILITIES[response_format]
        reply = table.query(capabilities, startingVersion=first)
        expect.body(reply, response_format, RANGES[response_format], changes=True)
        expect.that(reply.version == first, f"{reply} from version {first} with version {reply.version}")
        changed = expect.files(reply)
        expect.within(changed, first, table.latest)
        for version in sorted({file.version for file in changed if file.version is not None})[-2:]:
            there = set(expect.ids(table.query(capabilities, version=version)))
            added = {file.id for file in changed if file.version == version and file.action == "add"}
            expect.that(added <= there, f"version {version} lacks files that the range says were added by it")
        one = table.query(capabilities, startingVersion=table.latest, endingVersion=table.latest)
        expect.body(one, response_format, RANGES[response_format], changes=True)
        latest = sorted(file.id for file in changed if file.version == table.latest)
        expect.same("the range of the latest version alone", expect.ids(one), latest)

    return on_each(shared.readable, ask, HISTORY)


@check("Request Body")
def ranges_that_are_wrong_are_refused(shared: Shared) -> str:
    """Answer 400 with an error body to a range after the latest version or ending before it starts."""

    def ask(table: ListedTable) -> None:
        first_version(table)
        expect.refused(table.query(BOTH, startingVersion=table.latest + 1000), 400)
        expect.refused(table.query(BOTH, startingVersion=table.latest, endingVersion=table.latest - 1), 400)

    return on_each([table for table in shared.readable if table.latest > 0], ask, HISTORY)


@check("Read Data from a Table")
def pages_of_a_range_are_the_whole(shared: Shared) -> str:
    """Give by maxFiles and pageToken the lines of the whole range, in their order."""

    def ask(table: ListedTable) -> None:
        first = first_version(table)
        for response_format in table.whole:
            capabilities = CAPABILITIES[response_format]
            whole = expect.ids(table.query(capabilities, startingVersion=first))
            if len(whole) > 1:
                ids: list[str] = []
                for reply in walk(table, capabilities, 1, startingVersion=first):
                    expect.body(reply, response_format, RANGES[response_format], changes=True)
                    if not ids and len(expect.ids(reply)) == len(whole):
                        raise NotTried("the server gives no pages of ranges")
                    ids += expect.ids(reply)
                expect.that(ids == whole, f"pages of 1 in {response_format} format have {len(ids)} of {len(whole)}")
                return
        raise NotTried("no range that the profile can see has two files")

    return on_each(shared.readable, ask, HISTORY)


@check("Read Change Data Feed from a Table")
def changes_in_parquet_format(shared: Shared) -> str:
    """Answer .../changes by add, cdf and remove lines, each with version and timestamp."""
    return _feed(shared, "parquet")


@check("File in Delta Format")
def changes_in_delta_format(shared: Shared) -> str:
    """Answer .../changes in delta format by file lines whose deltaSingleAction is add, cdc or remove."""
    return _feed(shared, "delta")


def _feed(shared: Shared, response_format: str) -> str:
    def ask(table: ListedTable) -> None:
        _has_feed(table)
        if response_format not in table.whole:
            raise NotTried(f"no change feed can be had in {response_format} format")
        if response_format not in table.changed:
            raise Fails(str(table.changes(CAPABILITIES[response_format], startingVersion=table.latest)))
        start, reply = table.changed[response_format]
        expect.body(reply, response_format, FEEDS[response_format], changes=True)
        expect.that(reply.version == start, f"{reply} from version {start} with version {reply.version}")
        expect.within(expect.files(reply), start, table.latest)

    return on_each(shared.readable, ask, FEED)


def _has_feed(table: ListedTable) -> None:
    first_version(table)
    configuration = table.facts.get("configuration") or {}
    on = {"enableChangeDataFeed", "delta.enableChangeDataFeed"} & {
        name for name, value in configuration.items() if str(value).lower() == "true"
    }
    if not on:
        raise NotTried(f"no table that the profile sees {FEED}")


@check("Read Change Data Feed from a Table")
def changes_between_versions_and_times(shared: Shared) -> str:
    """Take start and end, both inclusive, as versions or as times."""

    def ask(table: ListedTable) -> None:
        _has_feed(table)
        for response_format, (start, reply) in table.changed.items():
            capabilities = CAPABILITIES[response_format]
            files = expect.files(reply)
            versions = sorted({file.version for file in files if file.version is not None})
            if not versions:
                continue
            wanted = [file.id for file in files if file.version == versions[0]]
            part = table.changes(capabilities, startingVersion=versions[0], endingVersion=versions[0])
            expect.same(f"version {versions[0]} alone", expect.ids(part), wanted)
            at = next((file.timestamp for file in files if file.version == versions[0]), None)
            if at is not None and versions[0] >= start:
                timed = table.changes(capabilities, startingTimestamp=iso(at), endingTimestamp=iso(at))
                expect.same(f"the moment of version {versions[0]}", expect.ids(timed), wanted)
            return
        raise NotTried("no change feed that the profile can see has files")

    return on_each(shared.readable, ask, FEED)


@check("Read Change Data Feed from a Table")
def changes_that_are_wrong_are_refused(shared: Shared) -> str:
    """Answer 400 with an error body to changes without a start, with two, after the latest version, or backwards."""

    def ask(table: ListedTable) -> None:
        _has_feed(table)
        wrong: list[dict[str, str | int]] = [
            {},
            {"startingVersion": table.latest, "startingTimestamp": "2022-01-01T00:00:00Z"},
            {"startingVersion": "first"},
            {"startingTimestamp": "yesterday"},
            {"startingVersion": table.latest + 1000},
        ]
        if table.latest > 0:
            wrong.append({"startingVersion": table.latest, "endingVersion": table.latest - 1})
        for parameters in wrong:
            expect.refused(table.changes(BOTH, **parameters), 400)

    return on_each(shared.readable, ask, FEED)


@check("Read Change Data Feed from a Table")
def includeHistoricalMetadata_adds_metadata_alone(shared: Shared) -> str:  # noqa: N802 -- the parameter's name
    """Add metaData lines of versions after the start for includeHistoricalMetadata, and change no file."""

    def ask(table: ListedTable) -> None:
        _has_feed(table)
        for response_format, (start, reply) in table.changed.items():
            sent: dict[str, str | int] = {"startingVersion": start, "includeHistoricalMetadata": "true"}
            other = table.changes(CAPABILITIES[response_format], **sent)
            expect.body(other, response_format, FEEDS[response_format], changes=True)
            expect.same("the feed with historical metadata", expect.ids(other), expect.ids(reply))
            expect.that("metaData" not in reply.kinds[2:], f"{reply} with historical metadata unasked")

    return on_each(shared.readable, ask, FEED)


@check("Read Change Data Feed from a Table")
def pages_of_changes_are_the_whole(shared: Shared) -> str:
    """Give by maxFiles and pageToken the lines of the whole feed, in their order."""

    def ask(table: ListedTable) -> None:
        _has_feed(table)
        for response_format, (start, reply) in table.changed.items():
            whole, ids = expect.ids(reply), list[str]()
            if len(whole) < 2:  # noqa: PLR2004 -- nothing to divide
                continue
            sent: dict[str, str | int] = {"startingVersion": start, "maxFiles": 1}
            while True:
                page = table.changes(CAPABILITIES[response_format], **sent)
                expect.body(page, response_format, FEEDS[response_format], changes=True)
                if not ids and len(expect.ids(page)) == len(whole):
                    raise NotTried("the server gives no pages of changes")
                ids += expect.ids(page)
                token = page.end.get("nextPageToken")
                if not token or len(ids) > len(whole):
                    break
                sent["pageToken"] = str(token)
            expect.that(ids == whole, f"pages of 1 in {response_format} format have {len(ids)} of {len(whole)}")
            return
        raise NotTried("no change feed that the profile can see has two files")

    return on_each(shared.readable, ask, FEED)


@check("Read Change Data Feed from a Table")
def a_feed_that_is_off_is_refused(shared: Shared) -> str:
    """Answer 400 or 403 with an error body to changes of a table without a change data feed."""

    def ask(table: ListedTable) -> None:
        try:
            _has_feed(table)
        except NotTried:
            reply = table.changes(BOTH, startingVersion=max(table.latest, 0))
            expect.that(reply.status != OK, f"{reply} for a table whose change data feed is off")
            expect.refused(reply, 400, 403)
            return
        raise NotTried("every table that the profile sees has a change data feed")

    return on_each(shared.readable, ask, "can be queried")
