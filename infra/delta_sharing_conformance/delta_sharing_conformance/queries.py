"""Checks of queries of one version: lines, fields of the request body, pages and refreshed URLs."""

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.catalog import ListedTable, all_reply_pages
from delta_sharing_conformance.check import CheckSkipped, check_each_table
from delta_sharing_conformance.client import BOTH
from delta_sharing_conformance.versions import HISTORY, iso_time, require_history


@check_each_table(
    "Read Data from a Table", tables=lambda catalog: catalog.tables, id="every table can be queried or is refused"
)
def every_query_returns_files_or_an_error(table: ListedTable) -> None:
    """Return the files of each table, or 400, 403 or 404 and an error body; never 5xx."""
    if not table.full_replies:
        expect.error(table.query(BOTH), 400, 403, 404)


@check_each_table("API Response Actions in Parquet Format", id="lines of parquet format")
def parquet_format_lines_are_valid(table: ListedTable) -> None:
    """Send protocol, metaData, and a line for each file with url, id, partitionValues and size."""
    _check_lines(table, "parquet")


@check_each_table("API Response Actions in Delta Format", id="lines of delta format")
def delta_format_lines_are_valid(table: ListedTable) -> None:
    """Send protocol, metaData, and a line for each file with id and deltaSingleAction, whose path is the URL."""
    _check_lines(table, "delta")


def _check_lines(table: ListedTable, response_format: str) -> None:
    if response_format not in table.full_replies:
        raise CheckSkipped(f"no shared table can be read in {response_format} format")
    reply = table.full_replies[response_format]
    expect.body(reply, response_format, ["file"])
    columns = sorted(table.delta_metadata.get("partitionColumns") or [])
    if table.columns:
        invalid = [file for file in table.files(response_format) if sorted(file.partition) != columns]
        expect.that(not invalid, f"{len(invalid)} files whose partitionValues do not have the keys {columns}")


@check_each_table("Read Data from a Table", id="a query tells its version")
def query_returns_the_table_version(table: ListedTable) -> None:
    """Return the current version in Delta-Table-Version, the same as .../version."""
    for reply in table.full_replies.values():
        expect.that(reply.version == table.latest, f"{reply} with version {reply.version}, not {table.latest}")


@check_each_table("File", id="ids are unique and stay")
def file_ids_are_unique_and_stable(table: ListedTable) -> None:
    """Use a unique id for each file of a table, and the same id in every response."""
    for response_format, capabilities in table.formats:
        ids = table.ids(response_format)
        expect.that("" not in ids and len(set(ids)) == len(ids), "two files have the same id")
        repeated = sorted(file.id for file in expect.files(table.query(capabilities)))
        expect.same_ids("the second query", repeated, ids)


@check_each_table("Request Body", max_tables=3, id="what a body holds besides is ignored")
def unknown_body_fields_are_ignored(table: ListedTable) -> None:
    """Ignore unknown fields in the request body."""
    for response_format, capabilities in table.formats:
        reply = table.query(capabilities, noSuchKey={"a": [1]}, predicateHints=[])
        expect.same_ids("a body with an unknown key", expect.ids(reply), table.ids(response_format))


@check_each_table("Request Body", max_tables=2, id="bodies that are wrong are refused")
def invalid_bodies_are_rejected(table: ListedTable) -> None:
    """Return 400 and an error body for invalid JSON, fields of the wrong type, and version with timestamp."""
    invalid = (
        b"{",
        {"limitHint": "many"},
        {"version": "first"},
        {"predicateHints": 1},
        {"version": 0, "timestamp": "2022-01-01T00:00:00Z"},
        {"version": -1},
    )
    for body in invalid:
        reply = table.client.ask("POST", f"{table.path}/query", body=body, capabilities=BOTH)
        expect.that(reply.status == httpx.codes.BAD_REQUEST, f"{reply} for the body {body!r}")
        expect.error_body(reply)


@check_each_table("Request Body", id="limitHint leaves enough rows")
def limitHint_keeps_enough_rows(table: ListedTable) -> None:  # noqa: N802 -- the field's name
    """Omit files for limitHint only if the remaining files have enough rows according to their statistics."""
    for response_format, capabilities in table.formats:
        all_files = {file.id: file for file in table.files(response_format)}
        rows = sum(file.rows or 0 for file in all_files.values())
        for limit in (1, max(rows // 2, 1), rows + 1):
            ids = expect.ids(table.query(capabilities, limitHint=limit))
            expect.that(set(ids) <= all_files.keys(), f"limitHint {limit} returns files that are not in the table")
            if len(ids) < len(all_files):
                count = sum(all_files[name].rows or 0 for name in ids)
                expect.that(count >= limit, f"limitHint {limit} returns files with only {count} rows and omits others")


@check_each_table("Request Body", HISTORY, id="a version is queried")
def query_by_version_returns_the_version(table: ListedTable) -> None:
    """Respond to version with the files of that version, and with 400 for an unknown version."""
    first = require_history(table)
    for response_format, capabilities in table.formats:
        reply = table.query(capabilities, version=table.latest)
        expect.body(reply, response_format, ["file"])
        expect.that(reply.version == table.latest, f"{reply} with version {reply.version}")
        expect.same_ids("the query by the latest version", expect.ids(reply), table.ids(response_format))
    reply = expect.ok(table.query(BOTH, version=first))
    expect.that(reply.version == first, f"{reply} for version {first} with version {reply.version}")
    expect.error(table.query(BOTH, version=table.latest + 1000), 400)


@check_each_table("Request Body", HISTORY, id="a timestamp is queried")
def query_by_timestamp_returns_the_version(table: ListedTable) -> None:
    """Respond to timestamp with the version that was the latest one at that time."""
    require_history(table)
    if not table.commit_times:
        raise CheckSkipped("no response has commit times")
    for version, time in sorted(table.commit_times.items()):
        reply = expect.ok(table.query(BOTH, timestamp=iso_time(time)))
        expect.that(reply.version == version, f"the commit time of version {version} returns version {reply.version}")


@check_each_table("Read Data from a Table", id="pages are the whole")
def query_pages_contain_all_files(table: ListedTable) -> None:
    """Return all files once on pages that follow pageToken, with at most maxFiles files per page."""
    for response_format, capabilities in table.formats:
        expected = table.ids(response_format)
        if len(expected) < 2:  # noqa: PLR2004 -- too few files for pages
            continue
        ids: list[str] = []
        size = max(len(expected) // 3, 1)
        for reply in all_reply_pages(table.query, capabilities, size):
            expect.body(reply, response_format, ["file"])
            names = expect.ids(reply)
            if len(ids) == 0 and sorted(names) == expected:
                raise CheckSkipped("the server does not support pages of queries")
            expect.that(len(names) <= size, f"{reply} with {len(names)} files for maxFiles {size}")
            expect.that(reply.version == table.latest, f"{reply} with version {reply.version} on a page")
            ids += names
        expect.same_ids(f"pages of {size} in {response_format} format", ids, expected)
        return
    raise CheckSkipped("no shared table has two files")


@check_each_table("Read Data from a Table", max_tables=3, id="page sizes and tokens that are wrong are refused")
def invalid_page_sizes_and_tokens_are_rejected(table: ListedTable) -> None:
    """Return 400 and an error body for maxFiles below 1 and for an unknown pageToken or refreshToken."""
    pages = list(all_reply_pages(table.query, BOTH, 1))
    if len(pages) < 2:  # noqa: PLR2004 -- no pages
        raise CheckSkipped("no query returned more than one page")
    for body in ({"maxFiles": 0}, {"pageToken": "no-such-token"}, {"refreshToken": "no-such-token"}):
        expect.error(table.query(BOTH, **body), 400)


@check_each_table("EndStreamAction", id="refreshToken gives the same files")
def refreshToken_returns_the_same_files(table: ListedTable) -> None:  # noqa: N802 -- the field's name
    """Return a refreshToken for includeRefreshToken, and for this token the same files with new URLs."""
    for response_format, capabilities in table.formats:
        first = expect.ok(table.query(capabilities, includeRefreshToken=True))
        token = first.end.get("refreshToken")
        if not token:
            raise CheckSkipped("the server does not support refreshToken")
        refreshed = table.query(capabilities, refreshToken=token, includeRefreshToken=True)
        expect.body(refreshed, response_format, ["file"])
        expect.same_ids("the refreshed response", expect.ids(refreshed), expect.ids(first))
