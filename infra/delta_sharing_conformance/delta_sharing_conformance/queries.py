"""Checks of queries of a whole table: lines and keys, the body's fields, pages, refreshed URLs."""

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check_each_table
from delta_sharing_conformance.client import BOTH
from delta_sharing_conformance.shared import ListedTable, walk
from delta_sharing_conformance.versions import HISTORY, first_version, iso


@check_each_table("Read Data from a Table", "is listed", of=lambda shared: shared.tables)
def every_table_can_be_queried_or_is_refused(table: ListedTable) -> None:
    """Answer a query of each listed table, or refuse it with 400, 403 or 404 and an error body; never with 5xx."""
    if not table.whole:
        expect.refused(table.query(BOTH), 400, 403, 404)


@check_each_table("API Response Actions in Parquet Format")
def lines_of_parquet_format(table: ListedTable) -> None:
    """Send protocol, metaData, then a line for each file with url, id, partitionValues and size."""
    _lines(table, "parquet")


@check_each_table("API Response Actions in Delta Format")
def lines_of_delta_format(table: ListedTable) -> None:
    """Send protocol, metaData, then a line for each file with id and deltaSingleAction, its path being the URL."""
    _lines(table, "delta")


def _lines(table: ListedTable, response_format: str) -> None:
    if response_format not in table.whole:
        raise NotTried(f"no table that the profile sees can be had in {response_format} format")
    reply = table.whole[response_format]
    expect.body(reply, response_format, ["file"])
    columns = sorted(table.facts.get("partitionColumns") or [])
    if table.columns:
        wrong = [file for file in table.files(response_format) if sorted(file.partition) != columns]
        expect.that(not wrong, f"{len(wrong)} files whose partitionValues have other keys than {columns}")


@check_each_table("Read Data from a Table")
def a_query_tells_its_version(table: ListedTable) -> None:
    """Give the current version in Delta-Table-Version, the one that .../version gives."""
    for reply in table.whole.values():
        expect.that(reply.version == table.latest, f"{reply} with version {reply.version}, not {table.latest}")


@check_each_table("File")
def ids_are_unique_and_stay(table: ListedTable) -> None:
    """Give a file the same id in every answer, and no two files of a table the same."""
    for response_format, capabilities in table.formats:
        ids = table.ids(response_format)
        expect.that("" not in ids and len(set(ids)) == len(ids), "two files have one id")
        again = sorted(file.id for file in expect.files(table.query(capabilities)))
        expect.same("the second query", again, ids)


@check_each_table("Request Body", most=3)
def what_a_body_holds_besides_is_ignored(table: ListedTable) -> None:
    """Take a body with keys that the protocol does not have, or none but {}, as if they were not there."""
    for response_format, capabilities in table.formats:
        reply = table.query(capabilities, noSuchKey={"a": [1]}, predicateHints=[])
        expect.same("a body with an unknown key", expect.ids(reply), table.ids(response_format))


@check_each_table("Request Body", most=2)
def bodies_that_are_wrong_are_refused(table: ListedTable) -> None:
    """Answer 400 with an error body to what is no JSON, to fields of another type, and to version with timestamp."""
    wrong = (
        b"{",
        {"limitHint": "many"},
        {"version": "first"},
        {"predicateHints": 1},
        {"version": 0, "timestamp": "2022-01-01T00:00:00Z"},
        {"version": -1},
    )
    for body in wrong:
        reply = table.client.ask("POST", f"{table.path}/query", body=body, capabilities=BOTH)
        expect.that(reply.status == httpx.codes.BAD_REQUEST, f"{reply} to the body {body!r}")
        expect.shaped(reply)


@check_each_table("Request Body")
def limitHint_leaves_enough_rows(table: ListedTable) -> None:  # noqa: N802 -- the field's name
    """Leave out files for limitHint only where those that stay have as many rows by their statistics."""
    for response_format, capabilities in table.formats:
        whole = {file.id: file for file in table.files(response_format)}
        rows = sum(file.rows or 0 for file in whole.values())
        for limit in (1, max(rows // 2, 1), rows + 1):
            kept = expect.ids(table.query(capabilities, limitHint=limit))
            expect.that(set(kept) <= whole.keys(), f"limitHint {limit} gives files that the table has not")
            if len(kept) < len(whole):
                enough = sum(whole[name].rows or 0 for name in kept)
                expect.that(enough >= limit, f"limitHint {limit} gives files of {enough} rows and leaves others out")


@check_each_table("Request Body", HISTORY)
def a_version_is_queried(table: ListedTable) -> None:
    """Answer version with the files of that version, the latest being the table, and 400 to one that is not there."""
    first = first_version(table)
    for response_format, capabilities in table.formats:
        reply = table.query(capabilities, version=table.latest)
        expect.body(reply, response_format, ["file"])
        expect.that(reply.version == table.latest, f"{reply} with version {reply.version}")
        expect.same("version, the latest", expect.ids(reply), table.ids(response_format))
    reply = expect.answered(table.query(BOTH, version=first))
    expect.that(reply.version == first, f"{reply} for version {first} with version {reply.version}")
    expect.refused(table.query(BOTH, version=table.latest + 1000), 400)


@check_each_table("Request Body", HISTORY)
def a_timestamp_is_queried(table: ListedTable) -> None:
    """Answer timestamp with the version that was the latest at that moment."""
    first_version(table)
    if not table.moments:
        raise NotTried("no table's lines tell when a version was committed")
    for version, at in sorted(table.moments.items()):
        reply = expect.answered(table.query(BOTH, timestamp=iso(at)))
        expect.that(reply.version == version, f"the moment of version {version} gives version {reply.version}")


@check_each_table("Read Data from a Table")
def pages_are_the_whole(table: ListedTable) -> None:
    """Give by maxFiles and pageToken the files of the whole answer, each once, none of the pages longer than asked."""
    for response_format, capabilities in table.formats:
        whole = table.ids(response_format)
        if len(whole) < 2:  # noqa: PLR2004 -- nothing to divide
            continue
        ids: list[str] = []
        size = max(len(whole) // 3, 1)
        for reply in walk(table.query, capabilities, size):
            expect.body(reply, response_format, ["file"])
            names = expect.ids(reply)
            if len(ids) == 0 and sorted(names) == whole:
                raise NotTried("the server gives no pages of queries")
            expect.that(len(names) <= size, f"{reply} with {len(names)} files for maxFiles {size}")
            expect.that(reply.version == table.latest, f"{reply} with version {reply.version} on a page")
            ids += names
        expect.same(f"pages of {size} in {response_format} format", ids, whole)
        return
    raise NotTried("no table that the profile sees has two files")


@check_each_table("Read Data from a Table", most=3)
def page_sizes_and_tokens_that_are_wrong_are_refused(table: ListedTable) -> None:
    """Answer 400 with an error body to maxFiles below 1 and to a pageToken or refreshToken that was never given."""
    pages = list(walk(table.query, BOTH, 1))
    if len(pages) < 2:  # noqa: PLR2004 -- no pages
        raise NotTried("no query that the profile can make has pages")
    for body in ({"maxFiles": 0}, {"pageToken": "no-such-token"}, {"refreshToken": "no-such-token"}):
        expect.refused(table.query(BOTH, **body), 400)


@check_each_table("EndStreamAction")
def refreshToken_gives_the_same_files(table: ListedTable) -> None:  # noqa: N802 -- the field's name
    """Give a refreshToken where includeRefreshToken asks, and by it the same files with fresh URLs."""
    for response_format, capabilities in table.formats:
        first = expect.answered(table.query(capabilities, includeRefreshToken=True))
        token = first.end.get("refreshToken")
        if not token:
            raise NotTried("the server gives no refreshToken")
        again = table.query(capabilities, refreshToken=token, includeRefreshToken=True)
        expect.body(again, response_format, ["file"])
        expect.same("the refreshed answer", expect.ids(again), expect.ids(first))
