"""Checks of version ranges and of the change data feed."""

from collections.abc import Iterable, Mapping

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import OK, ListedTable, all_reply_pages
from delta_sharing_conformance.check import CheckFailed, CheckSkipped, check_each_table
from delta_sharing_conformance.client import BOTH, FORMATS, Reply
from delta_sharing_conformance.versions import HISTORY, iso_time, require_history

FEED = "has a readable change data feed"
RANGES = {"parquet": ("add", "remove", "metaData"), "delta": ("file", "metaData")}
FEEDS = {"parquet": ("add", "remove", "cdf", "metaData"), "delta": ("file", "metaData")}


@check_each_table("Data Change Files", HISTORY, id="a range in parquet format")
def version_range_in_parquet_format(table: ListedTable) -> None:
    """Respond to startingVersion with add, remove and metaData lines, each with version and timestamp."""
    _check_range(table, "parquet")


@check_each_table("File in Delta Format", HISTORY, id="a range in delta format")
def version_range_in_delta_format(table: ListedTable) -> None:
    """Respond to startingVersion with file lines, each with version, timestamp and deltaSingleAction."""
    _check_range(table, "delta")


def _check_supported(reply: Reply) -> Reply:
    """Return a response; raises CheckSkipped if the table cannot have these changes, such as some Iceberg tables."""
    if reply.status != OK and b'"UNSUPPORTED_OPERATION"' in reply.body:
        raise CheckSkipped("no shared table has readable changes of all its versions")
    return reply


def _check_range(table: ListedTable, response_format: str) -> None:
    first = require_history(table)
    if response_format not in table.full_replies:
        raise CheckSkipped(f"no table with history can be read in {response_format} format")
    capabilities = FORMATS[response_format]
    reply = _check_supported(table.query(capabilities, startingVersion=first))
    expect.body(reply, response_format, RANGES[response_format], changes=True)
    expect.that(reply.version == first, f"{reply} for startingVersion {first} with version {reply.version}")
    changed = expect.files(reply)
    expect.versions_between(changed, first, table.latest)
    for version in sorted({file.version for file in changed if file.version is not None})[-2:]:
        snapshot = set(expect.ids(table.query(capabilities, version=version)))
        added = {file.id for file in changed if file.version == version and file.action == "add"}
        expect.that(added <= snapshot, f"version {version} lacks files that the range lists as added in it")
    last_range = table.query(capabilities, startingVersion=table.latest, endingVersion=table.latest)
    expect.body(last_range, response_format, RANGES[response_format], changes=True)
    latest = sorted(file.id for file in changed if file.version == table.latest)
    expect.same_ids("the range with only the latest version", expect.ids(last_range), latest)


@check_each_table("Request Body", HISTORY, id="ranges that are wrong are refused")
def invalid_ranges_are_rejected(table: ListedTable) -> None:
    """Return 400 and an error body for a range after the latest version, or that ends before it starts."""
    require_history(table)
    if table.latest == 0:
        raise CheckSkipped("no shared table has two versions")
    expect.error(table.query(BOTH, startingVersion=table.latest + 1000), 400)
    expect.error(table.query(BOTH, startingVersion=table.latest, endingVersion=table.latest - 1), 400)


@check_each_table("Read Data from a Table", HISTORY, id="pages of a range are the whole")
def range_pages_contain_all_lines(table: ListedTable) -> None:
    """Return all lines of the range in order on pages that follow pageToken."""
    first = require_history(table)
    for response_format, capabilities in table.formats:
        ids = expect.ids(_check_supported(table.query(capabilities, startingVersion=first)))
        if len(ids) > 1:
            pages = all_reply_pages(table.query, capabilities, 1, startingVersion=first)
            _check_pages(pages, ids, response_format, RANGES, "ranges")
            return
    raise CheckSkipped("no version range has two files")


def _check_pages(
    pages: Iterable[Reply], expected: list[str], response_format: str, kinds: Mapping[str, Iterable[str]], name: str
) -> None:
    """Expect all `expected` files on pages of one file each; raises CheckSkipped if the first page has every file."""
    ids: list[str] = []
    for reply in pages:
        expect.body(reply, response_format, kinds[response_format], changes=True)
        if not ids and len(expect.ids(reply)) == len(expected):
            raise CheckSkipped(f"the server does not support pages of {name}")
        ids += expect.ids(reply)
    expect.that(ids == expected, f"pages of 1 in {response_format} format list {len(ids)} of {len(expected)} files")


@check_each_table("Read Change Data Feed from a Table", FEED)
def changes_in_parquet_format(table: ListedTable) -> None:
    """Respond to .../changes with add, cdf and remove lines, each with version and timestamp."""
    _check_feed(table, "parquet")


@check_each_table("File in Delta Format", FEED)
def changes_in_delta_format(table: ListedTable) -> None:
    """Respond to .../changes in delta format with file lines whose deltaSingleAction is add, cdc or remove."""
    _check_feed(table, "delta")


def _check_feed(table: ListedTable, response_format: str) -> None:
    _require_feed(table)
    if response_format not in table.full_replies:
        raise CheckSkipped(f"no change feed can be read in {response_format} format")
    if response_format not in table.change_feeds:
        raise CheckFailed(str(_check_supported(table.changes(FORMATS[response_format], startingVersion=table.latest))))
    start, reply = table.change_feeds[response_format]
    expect.body(reply, response_format, FEEDS[response_format], changes=True)
    expect.that(reply.version == start, f"{reply} for startingVersion {start} with version {reply.version}")
    expect.versions_between(expect.files(reply), start, table.latest)


def _require_feed(table: ListedTable) -> None:
    require_history(table)
    configuration = table.delta_metadata.get("configuration") or {}
    enabled = {"enableChangeDataFeed", "delta.enableChangeDataFeed"} & {
        name for name, value in configuration.items() if str(value).lower() == "true"
    }
    if not enabled:
        raise CheckSkipped(f"no shared table {FEED}")


@check_each_table("Read Change Data Feed from a Table", FEED)
def changes_between_versions_and_times(table: ListedTable) -> None:
    """Accept an inclusive start and end as versions or as timestamps."""
    _require_feed(table)
    for response_format, (start, reply) in table.change_feeds.items():
        capabilities = FORMATS[response_format]
        files = expect.files(reply)
        versions = sorted({file.version for file in files if file.version is not None})
        if not versions:
            continue
        expected = [file.id for file in files if file.version == versions[0]]
        by_version = table.changes(capabilities, startingVersion=versions[0], endingVersion=versions[0])
        expect.same_ids(f"the changes of version {versions[0]}", expect.ids(by_version), expected)
        time = next((file.timestamp for file in files if file.version == versions[0]), None)
        if time is not None and versions[0] >= start:
            by_time = table.changes(capabilities, startingTimestamp=iso_time(time), endingTimestamp=iso_time(time))
            expect.same_ids(f"the commit time of version {versions[0]}", expect.ids(by_time), expected)
        return
    raise CheckSkipped("no change feed has files")


@check_each_table("Read Change Data Feed from a Table", FEED, id="changes that are wrong are refused")
def invalid_change_requests_are_rejected(table: ListedTable) -> None:
    """Return 400 and an error body for changes without a start, with two starts, or with an invalid range."""
    _require_feed(table)
    invalid: list[dict[str, str | int]] = [
        {},
        {"startingVersion": table.latest, "startingTimestamp": "2022-01-01T00:00:00Z"},
        {"startingVersion": "first"},
        {"startingTimestamp": "yesterday"},
        {"startingVersion": table.latest + 1000},
    ]
    if table.latest > 0:
        invalid.append({"startingVersion": table.latest, "endingVersion": table.latest - 1})
    for parameters in invalid:
        expect.error(table.changes(BOTH, **parameters), 400)


@check_each_table("Read Change Data Feed from a Table", FEED, id="includeHistoricalMetadata adds metadata alone")
def includeHistoricalMetadata_adds_only_metadata(table: ListedTable) -> None:  # noqa: N802 -- the parameter's name
    """Add metaData lines of later versions for includeHistoricalMetadata, and keep the files unchanged."""
    _require_feed(table)
    for response_format, (start, reply) in table.change_feeds.items():
        parameters: dict[str, str | int] = {"startingVersion": start, "includeHistoricalMetadata": "true"}
        extended = table.changes(FORMATS[response_format], **parameters)
        expect.body(extended, response_format, FEEDS[response_format], changes=True)
        expect.same_ids("the feed with historical metadata", expect.ids(extended), expect.ids(reply))
        expect.that("metaData" not in reply.kinds[2:], f"{reply} with historical metadata that was not requested")


@check_each_table("Read Change Data Feed from a Table", FEED, id="pages of changes are the whole")
def change_pages_contain_all_lines(table: ListedTable) -> None:
    """Return all lines of the feed in order on pages that follow pageToken."""
    _require_feed(table)
    for response_format, (start, reply) in table.change_feeds.items():
        ids = expect.ids(reply)
        if len(ids) > 1:
            pages = all_reply_pages(table.changes, FORMATS[response_format], 1, startingVersion=start)
            _check_pages(pages, ids, response_format, FEEDS, "changes")
            return
    raise CheckSkipped("no shared table has a change feed with two files")


@check_each_table("Read Change Data Feed from a Table", id="a feed that is off is refused")
def disabled_change_feed_returns_an_error(table: ListedTable) -> None:
    """Return 400 or 403 and an error body for changes of a table without a change data feed."""
    try:
        _require_feed(table)
    except CheckSkipped:
        reply = table.changes(BOTH, startingVersion=max(table.latest, 0))
        expect.that(reply.status != OK, f"{reply} for a table without a change data feed")
        expect.error(reply, 400, 403)
        return
    raise CheckSkipped("every shared table has a change data feed")
