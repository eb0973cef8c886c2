"""Checks of ranges of versions: data changes since a version, and the change data feed."""

from collections.abc import Iterable, Mapping

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import Fails, NotTried, check_each_table
from delta_sharing_conformance.client import BOTH, FORMATS, Reply
from delta_sharing_conformance.shared import OK, ListedTable, walk
from delta_sharing_conformance.versions import HISTORY, first_version, iso

FEED = "has a change data feed that its reader may see"
RANGES = {"parquet": ("add", "remove", "metaData"), "delta": ("file", "metaData")}
FEEDS = {"parquet": ("add", "remove", "cdf", "metaData"), "delta": ("file", "metaData")}


@check_each_table("Data Change Files", HISTORY)
def a_range_in_parquet_format(table: ListedTable) -> None:
    """Answer startingVersion by add, remove and metaData lines of those versions, each with version and timestamp."""
    _range(table, "parquet")


@check_each_table("File in Delta Format", HISTORY)
def a_range_in_delta_format(table: ListedTable) -> None:
    """Answer startingVersion by file lines of those versions, each with version, timestamp and deltaSingleAction."""
    _range(table, "delta")


def _range(table: ListedTable, response_format: str) -> None:
    first = first_version(table)
    if response_format not in table.whole:
        raise NotTried(f"no table with history can be had in {response_format} format")
    capabilities = FORMATS[response_format]
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


@check_each_table("Request Body", HISTORY, of=lambda shared: [table for table in shared.readable if table.latest > 0])
def ranges_that_are_wrong_are_refused(table: ListedTable) -> None:
    """Answer 400 with an error body to a range after the latest version or ending before it starts."""
    first_version(table)
    expect.refused(table.query(BOTH, startingVersion=table.latest + 1000), 400)
    expect.refused(table.query(BOTH, startingVersion=table.latest, endingVersion=table.latest - 1), 400)


@check_each_table("Read Data from a Table", HISTORY)
def pages_of_a_range_are_the_whole(table: ListedTable) -> None:
    """Give by maxFiles and pageToken the lines of the whole range, in their order."""
    first = first_version(table)
    for response_format, capabilities in table.formats:
        whole = expect.ids(table.query(capabilities, startingVersion=first))
        if len(whole) > 1:
            pages = walk(table.query, capabilities, 1, startingVersion=first)
            _paged(pages, whole, response_format, RANGES, "ranges")
            return
    raise NotTried("no range that the profile can see has two files")


def _paged(
    pages: Iterable[Reply], whole: list[str], response_format: str, kinds: Mapping[str, Iterable[str]], what: str
) -> None:
    """Expect pages of one file to be the whole answer; raises NotTried where the first one is."""
    ids: list[str] = []
    for reply in pages:
        expect.body(reply, response_format, kinds[response_format], changes=True)
        if not ids and len(expect.ids(reply)) == len(whole):
            raise NotTried(f"the server gives no pages of {what}")
        ids += expect.ids(reply)
    expect.that(ids == whole, f"pages of 1 in {response_format} format have {len(ids)} of {len(whole)}")


@check_each_table("Read Change Data Feed from a Table", FEED)
def changes_in_parquet_format(table: ListedTable) -> None:
    """Answer .../changes by add, cdf and remove lines, each with version and timestamp."""
    _feed(table, "parquet")


@check_each_table("File in Delta Format", FEED)
def changes_in_delta_format(table: ListedTable) -> None:
    """Answer .../changes in delta format by file lines whose deltaSingleAction is add, cdc or remove."""
    _feed(table, "delta")


def _feed(table: ListedTable, response_format: str) -> None:
    _has_feed(table)
    if response_format not in table.whole:
        raise NotTried(f"no change feed can be had in {response_format} format")
    if response_format not in table.changed:
        raise Fails(str(table.changes(FORMATS[response_format], startingVersion=table.latest)))
    start, reply = table.changed[response_format]
    expect.body(reply, response_format, FEEDS[response_format], changes=True)
    expect.that(reply.version == start, f"{reply} from version {start} with version {reply.version}")
    expect.within(expect.files(reply), start, table.latest)


def _has_feed(table: ListedTable) -> None:
    first_version(table)
    configuration = table.facts.get("configuration") or {}
    on = {"enableChangeDataFeed", "delta.enableChangeDataFeed"} & {
        name for name, value in configuration.items() if str(value).lower() == "true"
    }
    if not on:
        raise NotTried(f"no table that the profile sees {FEED}")


@check_each_table("Read Change Data Feed from a Table", FEED)
def changes_between_versions_and_times(table: ListedTable) -> None:
    """Take start and end, both inclusive, as versions or as times."""
    _has_feed(table)
    for response_format, (start, reply) in table.changed.items():
        capabilities = FORMATS[response_format]
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


@check_each_table("Read Change Data Feed from a Table", FEED)
def changes_that_are_wrong_are_refused(table: ListedTable) -> None:
    """Answer 400 with an error body to changes without a start, with two, after the latest version, or backwards."""
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


@check_each_table("Read Change Data Feed from a Table", FEED)
def includeHistoricalMetadata_adds_metadata_alone(table: ListedTable) -> None:  # noqa: N802 -- the parameter's name
    """Add metaData lines of versions after the start for includeHistoricalMetadata, and change no file."""
    _has_feed(table)
    for response_format, (start, reply) in table.changed.items():
        sent: dict[str, str | int] = {"startingVersion": start, "includeHistoricalMetadata": "true"}
        other = table.changes(FORMATS[response_format], **sent)
        expect.body(other, response_format, FEEDS[response_format], changes=True)
        expect.same("the feed with historical metadata", expect.ids(other), expect.ids(reply))
        expect.that("metaData" not in reply.kinds[2:], f"{reply} with historical metadata unasked")


@check_each_table("Read Change Data Feed from a Table", FEED)
def pages_of_changes_are_the_whole(table: ListedTable) -> None:
    """Give by maxFiles and pageToken the lines of the whole feed, in their order."""
    _has_feed(table)
    for response_format, (start, reply) in table.changed.items():
        whole = expect.ids(reply)
        if len(whole) > 1:
            pages = walk(table.changes, FORMATS[response_format], 1, startingVersion=start)
            _paged(pages, whole, response_format, FEEDS, "changes")
            return
    raise NotTried("no change feed that the profile can see has two files")


@check_each_table("Read Change Data Feed from a Table")
def a_feed_that_is_off_is_refused(table: ListedTable) -> None:
    """Answer 400 or 403 with an error body to changes of a table without a change data feed."""
    try:
        _has_feed(table)
    except NotTried:
        reply = table.changes(BOTH, startingVersion=max(table.latest, 0))
        expect.that(reply.status != OK, f"{reply} for a table whose change data feed is off")
        expect.refused(reply, 400, 403)
        return
    raise NotTried("every table that the profile sees has a change data feed")
