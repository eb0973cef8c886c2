"""Query Table Version: the latest, or the first at or after a time; by GET and HEAD."""

from collections.abc import Callable
from typing import Literal

import pytest
from contract.recipient import Reply, Table
from contract.tables import VERSION_1, iso

Call = Literal["GET", "HEAD"]
calls = pytest.mark.parametrize("call", ["GET", "HEAD"])
NO_HISTORY = "Reading table by version or timestamp is not supported because history sharing is not enabled on table: "


def version(table: Table, call: Call, parameters: str = "") -> Reply:
    if call == "GET":
        return table.at(parameters)
    return table.recipient.ask("HEAD", table.path + parameters)


def check(reply: Reply, call: Call, code: str, *texts: str) -> None:
    if call == "GET":
        reply.refused(400, code, *texts)
    else:
        assert (reply.status, reply.body) == (400, b"")


@calls
@pytest.mark.parametrize(("name", "latest"), [("table1", 2), ("table3", 4), ("cdf_table_cdf_enabled", 5)])
def test_the_latest_version_is_a_header(table: Callable[[str], Table], call: Call, name: str, latest: int) -> None:
    reply = version(table(name), call)
    assert (reply.status, reply.body, reply.version) == (200, b"", latest)


@calls
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("2000-01-01T00:00:00Z", 0),
        ("2022-04-29T22:51:12Z", 5),
        (iso(VERSION_1), 1),
        (iso(VERSION_1).replace("Z", "%2B00:00"), 1),
        ("2022-04-30T00:50:35%2B02:00", 1),
        (iso(VERSION_1 + 1), 2),
        (iso(VERSION_1 - 1), 1),
        (iso(VERSION_1 + 39_000), 5),
    ],
    ids=["before all", "between 4 and 5", "exactly 1", "+00:00", "+02:00", "just after 1", "just before 1", "the last"],
)
def test_the_first_version_at_or_after_a_time(
    table: Callable[[str], Table], call: Call, timestamp: str, expected: int
) -> None:
    reply = version(table("cdf_table_cdf_enabled"), call, f"?startingTimestamp={timestamp}")
    assert (reply.status, reply.body, reply.version) == (200, b"", expected)


@calls
def test_history_is_checked_before_the_timestamp(table: Callable[[str], Table], call: Call) -> None:
    reply = version(table("table2"), call, "?startingTimestamp=abc")
    check(reply, call, "INVALID_PARAMETER_VALUE", f"{NO_HISTORY}share2.default.table2")


@calls
@pytest.mark.parametrize("text", ["abc", "", "2022-04-29", "2022-04-29T22:51:12", "2022-13-01T00:00:00Z", "0"])
def test_an_invalid_timestamp_is_refused(table: Callable[[str], Table], call: Call, text: str) -> None:
    reply = version(table("cdf_table_cdf_enabled"), call, f"?startingTimestamp={text}")
    check(reply, call, "INVALID_PARAMETER_VALUE", "Invalid startingTimestamp")


@calls
def test_a_time_after_the_last_commit_is_refused(table: Callable[[str], Table], call: Call) -> None:
    reply = version(table("cdf_table_cdf_enabled"), call, "?startingTimestamp=9999-01-01T00:00:00Z")
    texts = ("The provided timestamp (9999-01-01 00:00:00.0)", "is after the latest available version")
    check(reply, call, "MALFORMED_REQUEST", *texts)


@calls
def test_a_version_before_the_start_version_is_refused(table: Callable[[str], Table], call: Call) -> None:
    reply = version(table("cdf_table_with_partition"), call, "?startingTimestamp=2000-01-01T00:00:00Z")
    texts = ("You can only query table data since version 1.", "corresponds to 0.")
    check(reply, call, "INVALID_PARAMETER_VALUE", *texts)


@calls
def test_a_broken_log_is_not_a_server_error(table: Callable[[str], Table], call: Call) -> None:
    """The reference answers 500, which clients repeat for minutes."""
    check(version(table("table_data_loss_no_checkpoint"), call), call, "RESOURCE_DOES_NOT_EXIST")


@calls
def test_the_content_of_commits_is_not_checked(table: Callable[[str], Table], call: Call) -> None:
    """Streams poll the version, so it costs one listing; metadata and queries report errors."""
    reply = version(table("table_with_no_metadata"), call)
    assert (reply.status, reply.version) == (200, 1)
    table("table_with_no_metadata").metadata().refused(400, "RESOURCE_DOES_NOT_EXIST")
