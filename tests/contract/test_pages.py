"""Pages of a snapshot and refreshed URLs: tokens are valid only for one request of one recipient."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from contract.recipient import Reply, Table, data_url, download
from contract.server import Server
from contract.tables import PEOPLE
from deltaic.protocol.sealed_tokens import TokenSigner

Reseal = Callable[[str, str, timedelta], str]
BAD = (400, "INVALID_PARAMETER_VALUE")
HINTS = {"predicateHints": ["date = '2021-04-28'"]}
MISMATCH = "Query parameter mismatch detected for the next page query"


def pages(table: Table, **body: Any) -> list[Reply]:
    """Return all pages of a query."""
    replies = [table.query(**body)]
    while token := replies[-1].end.get("nextPageToken"):
        replies.append(table.query(**body, pageToken=token))
    return replies


def ids(*replies: Reply) -> list[str]:
    return [line["id"] for reply in replies for line in reply.only("file")]


def first_token(table: Table, **body: Any) -> str:
    token = table.query(maxFiles=1, **body).end["nextPageToken"]
    assert isinstance(token, str)
    return token


@pytest.mark.parametrize("capabilities", [None, "responseformat=delta"], ids=["parquet", "delta"])
@pytest.mark.parametrize("body", [{}, HINTS], ids=["all", "hints"])
@pytest.mark.parametrize("name", ["table1", "table2"])
def test_each_file_can_be_on_a_separate_page(
    table: Callable[[str], Table], name: str, body: Mapping[str, Any], capabilities: str | None
) -> None:
    shared_table = table(name).with_capabilities(capabilities)
    replies = pages(shared_table, maxFiles=1, **body)
    assert [page.kinds for page in replies] == [["protocol", "metaData", "file", "endStreamAction"]] * 2
    assert len({page.body.split(b"\n")[0] for page in replies}) == 1
    assert len({page.body.split(b"\n")[1] for page in replies}) == 1
    assert ids(*replies) == ids(shared_table.query(body))
    for page in replies:
        assert page.version == 2
        assert page.end["minUrlExpirationTimestamp"] == page.only("file")[0]["expirationTimestamp"]
        assert "refreshToken" not in page.end
    assert "nextPageToken" not in replies[-1].end


@pytest.mark.parametrize(
    "body", [{}, {"limitHint": 5}, {"jsonPredicateHints": '{"op":"not","children":[]}'}, {"version": 1}], ids=str
)
@pytest.mark.parametrize("size", range(1, 11))
def test_pages_of_any_size_join_to_the_complete_result(
    table: Callable[[str], Table], size: int, body: Mapping[str, Any]
) -> None:
    replies = pages(table("partition_values"), maxFiles=size, **body)
    complete = table("partition_values").query(body)
    assert ids(*replies) == ids(complete)
    assert all(len(page.only("file")) == size for page in replies[:-1])
    assert all(line in page.lines for page in replies for line in complete.lines[:2])


def test_the_page_size_can_change_and_a_token_is_enough_for_the_rest(table: Callable[[str], Table]) -> None:
    complete = table("partition_values").query()
    first = table("partition_values").query(maxFiles=2)
    second = table("partition_values").query(maxFiles=3, pageToken=first.end["nextPageToken"])
    rest = table("partition_values").query(pageToken=second.end["nextPageToken"])
    assert ids(first, second, rest) == ids(complete)
    assert rest.kinds[-1] == "endStreamAction"
    assert "nextPageToken" not in rest.end


def test_a_page_larger_than_the_table_is_the_last_page(table: Callable[[str], Table]) -> None:
    reply = table("table1").query(maxFiles=2_147_483_647)
    assert reply.kinds == ["protocol", "metaData", "file", "file", "endStreamAction"]
    assert "nextPageToken" not in reply.end


def test_without_a_page_size_there_are_no_pages(table: Callable[[str], Table]) -> None:
    assert table("partition_values").query().kinds[-1] == "file"


@pytest.mark.parametrize("token", ["randomPageToken", "x" * 20_000, "\u00e9", "a b"], ids=lambda text: text[:15])
def test_texts_that_are_not_tokens_are_refused(table: Callable[[str], Table], token: str) -> None:
    reply = table("table1").query(maxFiles=1, pageToken=token)
    reply.refused(*BAD, "Error decoding the page token")
    assert len(reply.body) < 1000


def test_a_truncated_or_edited_token_is_refused(table: Callable[[str], Table]) -> None:
    token = first_token(table("table1"))
    edited = [token[:-1], token[1:], token + "A", token + "="]
    edited += [token[:at] + ("B" if token[at] == "A" else "A") + token[at + 1 :] for at in (0, 20, 43, 60, 100, -1)]
    for text in edited:
        table("table1").query(maxFiles=1, pageToken=text).refused(*BAD, "Error decoding the page token")


def test_a_token_of_another_recipient_is_refused(server: Server) -> None:
    token = first_token(server.table("table2"))
    reply = server.table("table2", "bob").query(maxFiles=1, pageToken=token)
    reply.refused(*BAD, "Error decoding the page token")


def test_a_token_of_another_kind_or_key_is_refused(table: Callable[[str], Table]) -> None:
    refresh = table("table1").query(includeRefreshToken=True).end["refreshToken"]
    foreign = TokenSigner(b"0" * 64).seal("page", {}, ttl=timedelta(days=1), now=2e9)
    for token in (refresh, foreign):
        table("table1").query(maxFiles=1, pageToken=token).refused(*BAD, "Error decoding the page token")


def test_a_token_of_another_table_is_refused(table: Callable[[str], Table]) -> None:
    reply = table("table2").query(maxFiles=1, pageToken=first_token(table("table1")))
    reply.refused(*BAD, "The table specified in the page token does not match the table being queried")


@pytest.mark.parametrize(
    "changed",
    [
        {"limitHint": 1},
        {"predicateHints": ["date = '2021-04-28'"]},
        {"jsonPredicateHints": "{}"},
    ],
    ids=str,
)
def test_a_page_token_refuses_a_changed_query(table: Callable[[str], Table], changed: Mapping[str, Any]) -> None:
    reply = table("table1").query(maxFiles=1, pageToken=first_token(table("table1")), **changed)
    reply.refused(*BAD, MISMATCH)


@pytest.mark.parametrize("changed", [{"version": 1}, {"startingVersion": 1}, {"timestamp": "2030-01-01T00:00:00Z"}])
def test_a_page_token_refuses_a_changed_snapshot(table: Callable[[str], Table], changed: Mapping[str, Any]) -> None:
    shared_table = table("cdf_table_cdf_enabled")
    shared_table.query(maxFiles=1, pageToken=first_token(shared_table), **changed).refused(*BAD, MISMATCH)


def test_a_page_token_refuses_changed_formats_and_ids(table: Callable[[str], Table]) -> None:
    """The reference lets both change, and a file then has two ids."""
    token = first_token(table("table1"))
    for shared_table in (
        table("table1").with_capabilities("responseformat=delta"),
        table("table1").with_capabilities(fileidhash="delta"),
    ):
        shared_table.query(maxFiles=1, pageToken=token).refused(*BAD, MISMATCH)


def test_the_capabilities_of_the_first_page_apply_to_all_pages(table: Callable[[str], Table]) -> None:
    shared_table = table("deletion_vectors_with_dvs_dv_property_on")
    first = shared_table.with_capabilities("responseformat=delta;readerfeatures=deletionvectors").query(maxFiles=1)
    later = shared_table.with_capabilities("responseformat=delta").query(
        maxFiles=1, pageToken=first.end["nextPageToken"]
    )
    assert later.lines[:2] == first.lines[:2]
    assert len({*ids(first), *ids(later)}) == 2
    shared_table.with_capabilities("responseformat=delta").query(maxFiles=1).refused(
        400, "UNSUPPORTED_OPERATION", "deletionVectors"
    )


def test_a_page_token_expires(table: Callable[[str], Table], reseal: Reseal) -> None:
    token = first_token(table("table1"))
    assert table("table1").query(maxFiles=1, pageToken=reseal("page", token, timedelta(minutes=1))).status == 200
    expired = reseal("page", token, timedelta(seconds=-1))
    reply = table("table1").query(maxFiles=1, pageToken=expired)
    reply.refused(*BAD, "The page token has expired. Please restart the query.")


@pytest.mark.parametrize("capabilities", [None, "responseformat=delta"], ids=["parquet", "delta"])
def test_a_refresh_signs_the_same_files_again(table: Callable[[str], Table], capabilities: str | None) -> None:
    shared_table = table("table1").with_capabilities(capabilities)
    first = shared_table.query(includeRefreshToken=True)
    assert first.kinds == ["protocol", "metaData", "file", "file", "endStreamAction"]
    refreshed = shared_table.query(includeRefreshToken=True, refreshToken=first.end["refreshToken"])
    assert refreshed.kinds == first.kinds
    assert refreshed.body.split(b"\n")[:2] == first.body.split(b"\n")[:2]
    assert ids(refreshed) == ids(first)
    assert "refreshToken" in refreshed.end
    last = shared_table.query(refreshToken=refreshed.end["refreshToken"])
    assert last.kinds == ["protocol", "metaData", "file", "file"]
    assert all(download(data_url(line)).status == 200 for line in last.only("file"))


def test_a_refresh_and_its_pages_keep_the_version_despite_new_commits(server: Server) -> None:
    """The reference forgets the version where no SQL hints are given: Spark then misses files."""
    log = server.shelf.log("growing", PEOPLE)
    adds = [log.add([{"name": str(number), "age": number}]) for number in range(4)]
    log.create(*adds[:3])
    server.admin.tables.create("share1", "default", "growing", log.location)
    try:
        shared_table = Table(server.alice, "share1", "default", "growing")
        hint = {
            "jsonPredicateHints": '{"op":"not","children":[{"op":"isNull","children":[{"op":"column","name":"age"}]}]}'
        }
        for body in ({}, hint, {"limitHint": 2}):
            first = shared_table.query(includeRefreshToken=True, **body)
            page = shared_table.query(maxFiles=1, **body)
            log.commit(log.remove(adds[0]), log.add([{"name": "new", "age": 9}]))
            log.checkpoint(len(log.commits) - 1, [adds[1], adds[2], log.commits[-1][1]])
            refreshed = shared_table.query(includeRefreshToken=True, refreshToken=first.end["refreshToken"], **body)
            assert ids(refreshed) == ids(first)
            assert (refreshed.version, shared_table.query().version) == (first.version, first.version + 1)
            assert ids(shared_table.query()) != ids(first)
            rest = shared_table.query(pageToken=page.end["nextPageToken"], **body)
            assert rest.version == first.version
            assert ids(page, rest) == ids(first)
            log.commit(log.remove(log.commits[-1][1]), adds[0])
    finally:
        server.admin.tables.delete("share1", "default", "growing")


@pytest.mark.parametrize("token", ["foo", "x" * 20_000], ids=["foo", "long"])
def test_texts_that_are_not_refresh_tokens_are_refused(table: Callable[[str], Table], token: str) -> None:
    table("table1").query(refreshToken=token).refused(*BAD, "Error decoding refresh token")


def test_refresh_tokens_of_other_recipients_are_refused(server: Server, reseal: Reseal) -> None:
    token = server.table("table2").query(includeRefreshToken=True).end["refreshToken"]
    reply = server.table("table1").query(refreshToken=token)
    reply.refused(*BAD, "The table specified in the refresh token does not match the table being queried")
    server.table("table2", "bob").query(refreshToken=token).refused(*BAD, "Error decoding refresh token")
    expired = reseal("refresh", token, timedelta(seconds=-1))
    reply = server.table("table2").query(refreshToken=expired)
    reply.refused(*BAD, "The refresh token has expired. Please restart the query.")


ORDER: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "version and includeRefreshToken": (
        {"version": 1, "includeRefreshToken": True},
        "includeRefreshToken cannot be used when querying a specific version",
    ),
    "timestamp and includeRefreshToken": (
        {"timestamp": "abc", "includeRefreshToken": True},
        "includeRefreshToken cannot be used when querying a specific version",
    ),
    "pageToken and includeRefreshToken": (
        {"pageToken": "x", "includeRefreshToken": True},
        "includeRefreshToken must be used in the first page request",
    ),
    "startingVersion and refreshToken": (
        {"startingVersion": 1, "refreshToken": "x"},
        "refreshToken cannot be used when querying a specific version",
    ),
    "pageToken and refreshToken": (
        {"pageToken": "x", "refreshToken": "x"},
        "refreshToken must be used in the first page request",
    ),
    "both refresh fields with a version": (
        {"version": 1, "refreshToken": "x", "includeRefreshToken": True},
        "includeRefreshToken cannot be used when querying a specific version",
    ),
}


@pytest.mark.parametrize(("body", "text"), ORDER.values(), ids=ORDER)
@pytest.mark.parametrize("name", ["table1", "cdf_table_cdf_enabled"], ids=["no history", "history"])
def test_a_page_token_and_a_refresh_token_exclude_each_other(
    table: Callable[[str], Table], name: str, body: Mapping[str, Any], text: str
) -> None:
    table(name).query(body).refused(*BAD, text)


def test_includerefreshtoken_false_returns_no_token(table: Callable[[str], Table]) -> None:
    assert table("cdf_table_cdf_enabled").query(version=1, includeRefreshToken=False).kinds[-1] == "file"
