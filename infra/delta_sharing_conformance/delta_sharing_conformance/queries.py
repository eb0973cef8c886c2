"""Checks of queries of a whole table: lines and keys, the body's fields, pages, refreshed URLs."""

import httpx

from delta_sharing_conformance import expect
from delta_sharing_conformance.check import NotTried, check, on_each
from delta_sharing_conformance.client import BOTH, DELTA, PARQUET
from delta_sharing_conformance.shared import ListedTable, Shared, walk
from delta_sharing_conformance.versions import HISTORY, first_version, iso

QUERIED = "can be queried"
CAPABILITIES = {"parquet": PARQUET, "delta": DELTA}


def _formats(table: ListedTable) -> list[tuple[str, str]]:
    return [(name, CAPABILITIES[name]) for name in table.whole]


@check("Read Data from a Table")
def every_table_can_be_queried_or_is_refused(shared: Shared) -> str:
    """Answer a query of each listed table, or refuse it with 400, 403 or 404 and an error body; never with 5xx."""

    def ask(table: ListedTable) -> None:
        if not table.whole:
            expect.refused(table.query(BOTH), 400, 403, 404)

    return on_each(shared.tables, ask, "is listed")


@check("API Response Actions in Parquet Format")
def lines_of_parquet_format(shared: Shared) -> str:
    """Send protocol, metaData, then a line for each file with url, id, partitionValues and size."""
    return _lines(shared, "parquet")


@check("API Response Actions in Delta Format")
def lines_of_delta_format(shared: Shared) -> str:
    """Send protocol, metaData, then a line for each file with id and deltaSingleAction, its path being the URL."""
    return _lines(shared, "delta")


def _lines(shared: Shared, response_format: str) -> str:
    def ask(table: ListedTable) -> None:
        if response_format not in table.whole:
            raise NotTried(f"no table that the profile sees can be had in {response_format} format")
        reply = table.whole[response_format]
        expect.body(reply, response_format, ["file"])
        columns = sorted(table.facts.get("partitionColumns") or [])
        if table.columns:
            wrong = [file for file in table.files(response_format) if sorted(file.partition) != columns]
            expect.that(not wrong, f"{len(wrong)} files whose partitionValues have other keys than {columns}")

    return on_each(shared.readable, ask, QUERIED)


@check("Read Data from a Table")
def a_query_tells_its_version(shared: Shared) -> str:
    """Give the current version in Delta-Table-Version, the one that .../version gives."""

    def ask(table: ListedTable) -> None:
        for reply in table.whole.values():
            expect.that(reply.version == table.latest, f"{reply} with version {reply.version}, not {table.latest}")

    return on_each(shared.readable, ask, QUERIED)


@check("File")
def ids_are_unique_and_stay(shared: Shared) -> str:
    """Give a file the same id in every answer, and no two files of a table the same."""

    def ask(table: ListedTable) -> None:
        for response_format, capabilities in _formats(table):
            ids = table.ids(response_format)
            expect.that("" not in ids and len(set(ids)) == len(ids), "two files have one id")
            again = sorted(file.id for file in expect.files(table.query(capabilities)))
            expect.same("the second query", again, ids)

    return on_each(shared.readable, ask, QUERIED)


@check("Request Body")
def what_a_body_holds_besides_is_ignored(shared: Shared) -> str:
    """Take a body with keys that the protocol does not have, or none but {}, as if they were not there."""

    def ask(table: ListedTable) -> None:
        for response_format, capabilities in _formats(table):
            reply = table.query(capabilities, noSuchKey={"a": [1]}, predicateHints=[])
            expect.same("a body with an unknown key", expect.ids(reply), table.ids(response_format))

    return on_each(shared.readable[:3], ask, QUERIED)


@check("Request Body")
def bodies_that_are_wrong_are_refused(shared: Shared) -> str:
    """Answer 400 with an error body to what is no JSON, to fields of another type, and to version with timestamp."""

    def ask(table: ListedTable) -> None:
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

    return on_each(shared.readable[:2], ask, QUERIED)


@check("Request Body")
def limitHint_leaves_enough_rows(shared: Shared) -> str:  # noqa: N802 -- the field's name
    """Leave out files for limitHint only where those that stay have as many rows by their statistics."""

    def ask(table: ListedTable) -> None:
        for response_format, capabilities in _formats(table):
            whole = {file.id: file for file in table.files(response_format)}
            rows = sum(file.rows or 0 for file in whole.values())
            for limit in (1, max(rows // 2, 1), rows + 1):
                kept = expect.ids(table.query(capabilities, limitHint=limit))
                expect.that(set(kept) <= whole.keys(), f"limitHint {limit} gives files that the table has not")
                if len(kept) < len(whole):
                    enough = sum(whole[name].rows or 0 for name in kept)
                    expect.that(
                        enough >= limit, f"limitHint {limit} gives files of {enough} rows and leaves others out"
                    )

    return on_each(shared.readable, ask, QUERIED)


@check("Request Body")
def a_version_is_queried(shared: Shared) -> str:
    """Answer version with the files of that version, the latest being the table, and 400 to one that is not there."""

    def ask(table: ListedTable) -> None:
        first = first_version(table)
        for response_format, capabilities in _formats(table):
            reply = table.query(capabilities, version=table.latest)
            expect.body(reply, response_format, ["file"])
            expect.that(reply.version == table.latest, f"{reply} with version {reply.version}")
            expect.same("version, the latest", expect.ids(reply), table.ids(response_format))
        reply = expect.answered(table.query(BOTH, version=first))
        expect.that(reply.version == first, f"{reply} for version {first} with version {reply.version}")
        expect.refused(table.query(BOTH, version=table.latest + 1000), 400)

    return on_each(shared.readable, ask, HISTORY)


@check("Request Body")
def a_timestamp_is_queried(shared: Shared) -> str:
    """Answer timestamp with the version that was the latest at that moment."""

    def ask(table: ListedTable) -> None:
        first_version(table)
        if not table.moments:
            raise NotTried("no table's lines tell when a version was committed")
        for version, at in sorted(table.moments.items()):
            reply = expect.answered(table.query(BOTH, timestamp=iso(at)))
            expect.that(reply.version == version, f"the moment of version {version} gives version {reply.version}")

    return on_each(shared.readable, ask, HISTORY)


@check("Read Data from a Table")
def pages_are_the_whole(shared: Shared) -> str:
    """Give by maxFiles and pageToken the files of the whole answer, each once, none of the pages longer than asked."""

    def ask(table: ListedTable) -> None:
        for response_format, capabilities in _formats(table):
            whole = table.ids(response_format)
            if len(whole) < 2:  # noqa: PLR2004 -- nothing to divide
                continue
            ids: list[str] = []
            size = max(len(whole) // 3, 1)
            for reply in walk(table, capabilities, size):
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

    return on_each(shared.readable, ask, QUERIED)


@check("Read Data from a Table")
def page_sizes_and_tokens_that_are_wrong_are_refused(shared: Shared) -> str:
    """Answer 400 with an error body to maxFiles below 1 and to a pageToken or refreshToken that was never given."""

    def ask(table: ListedTable) -> None:
        pages = list(walk(table, BOTH, 1))
        if len(pages) < 2:  # noqa: PLR2004 -- no pages
            raise NotTried("no query that the profile can make has pages")
        for body in ({"maxFiles": 0}, {"pageToken": "no-such-token"}, {"refreshToken": "no-such-token"}):
            expect.refused(table.query(BOTH, **body), 400)

    return on_each(shared.readable[:3], ask, QUERIED)


@check("EndStreamAction")
def refreshToken_gives_the_same_files(shared: Shared) -> str:  # noqa: N802 -- the field's name
    """Give a refreshToken where includeRefreshToken asks, and by it the same files with fresh URLs."""

    def ask(table: ListedTable) -> None:
        for response_format, capabilities in _formats(table):
            first = expect.answered(table.query(capabilities, includeRefreshToken=True))
            token = first.end.get("refreshToken")
            if not token:
                raise NotTried("the server gives no refreshToken")
            again = table.query(capabilities, refreshToken=token, includeRefreshToken=True)
            expect.body(again, response_format, ["file"])
            expect.same("the refreshed answer", expect.ids(again), expect.ids(first))

    return on_each(shared.readable, ask, QUERIED)
