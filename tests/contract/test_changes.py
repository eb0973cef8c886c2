"""Read Change Data Feed: which lines a range has, how it is spelled, paged and refused."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import pytest
from contract.recipient import CAPABILITIES, Line, Reply, Table, data_url, download
from contract.server import Server
from contract.tables import CDF_ON, PEOPLE, VERSION_1, iso

READS_ALL = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
formats = pytest.mark.parametrize("capabilities", [None, READS_ALL], ids=["parquet", "delta"])


def kind_and_version(line: Line) -> tuple[str, int | None]:
    """Return what a line is, in parquet format's words, and the version that it names."""
    ((kind, content),) = line.items()
    if kind == "file":
        ((kind, _),) = content["deltaSingleAction"].items()
        kind = {"cdc": "cdf"}.get(kind, kind)
    return kind, content.get("version")


def story(reply: Reply) -> list[tuple[str, int | None]]:
    return [kind_and_version(line) for line in reply.lines]


def pages(table: Table, parameters: str) -> list[Reply]:
    """Follow the tokens as Spark does: as they are, at the end of the query string."""
    replies = [table.changes(parameters)]
    while token := replies[-1].end.get("nextPageToken"):
        replies.append(table.changes(f"{parameters}&pageToken={token}"))
    return replies


@pytest.mark.parametrize("response_format", ["parquet", "delta", "parquet,delta", "delta,parquet"])
@pytest.mark.parametrize("ends", [True, False], ids=["end stream", "no end stream"])
def test_a_feed_has_inserts_a_delete_and_an_update(
    table: Callable[[str], Table], server: Server, response_format: str, *, ends: bool
) -> None:
    capabilities = f"responseformat={response_format}" + (";includeendstreamaction=true" if ends else "")
    reply = table("cdf_table_cdf_enabled").with_capabilities(capabilities).changes("?startingVersion=0&endingVersion=3")
    answered = "delta" if response_format == "delta" else "parquet"
    assert reply.version == 0
    assert reply.headers[CAPABILITIES] == f"responseformat={answered}" + (
        ";includeendstreamaction=true" if ends else ""
    )
    changes = [("add", 1), ("add", 1), ("add", 1), ("cdf", 2), ("cdf", 3)]
    assert story(reply) == [("protocol", None), ("metaData", 5), *changes] + [("endStreamAction", None)] * ends
    log = server.shelf.logs["cdf_table_cdf_enabled"]
    logged = [*log.commits[1], log.commits[2][1], log.commits[3][2]]
    for line, action in zip(reply.only("file", "add", "cdf"), logged, strict=True):
        assert line["timestamp"] == log.times[line["version"]]
        ((kind, content),) = action.items()
        sent = line["deltaSingleAction"][kind] if answered == "delta" else line
        assert sent["size"] == content["size"]
        assert sent["partitionValues"] == {}
        assert ("stats" in sent) is (kind == "add")
        assert download(data_url(line)).body == log.content(action)
        size = content["size"]
        assert download(data_url(line), (size - 8, size - 1)).status == 206
    if ends:
        lines = reply.only("file", "add", "cdf")
        assert reply.end == {"minUrlExpirationTimestamp": min(line["expirationTimestamp"] for line in lines)}


@formats
def test_a_feed_has_partition_values_and_a_remove(table: Callable[[str], Table], capabilities: str | None) -> None:
    shared_table = table("cdf_table_with_partition").with_capabilities(capabilities)
    reply = shared_table.changes("?startingVersion=1&endingVersion=3")
    assert reply.version == 1
    changes = [("add", 1)] * 3 + [("cdf", 2)] * 2 + [("remove", 3)]
    assert story(reply) == [("protocol", None), ("metaData", 3), *changes]
    lines = reply.only("file", "add", "cdf", "remove")
    sent = [next(iter(line["deltaSingleAction"].values())) if capabilities else line for line in lines]
    days = ["2020-01-01", "2020-01-01", "2020-03-03", "2020-01-01", "2020-02-02", "2020-03-03"]
    assert [action["partitionValues"] for action in sent] == [{"birthday": day} for day in days]


def test_a_feed_accepts_times_instead_of_versions(table: Callable[[str], Table]) -> None:
    shared_table = table("cdf_table_cdf_enabled")
    complete = story(shared_table.changes("?startingVersion=0&endingVersion=3"))
    start, end = iso(VERSION_1 - 1000), iso(VERSION_1 + 25_000)
    for parameters in (
        f"?startingTimestamp={start}&endingTimestamp={end}",
        f"?startingTimestamp={start.replace(':', '%3A')}&endingVersion=3",
        f"?startingVersion=0&endingTimestamp={iso(VERSION_1 + 25_999)}",
    ):
        reply = shared_table.changes(parameters)
        assert reply.version == 0
        assert story(reply) == complete
    later = shared_table.changes(f"?startingTimestamp={iso(VERSION_1 + 1)}&endingTimestamp={end}")
    assert (later.version, story(later)[2:]) == (2, [("cdf", 2), ("cdf", 3)])


@pytest.mark.parametrize("scheme", ["parquet", "delta"])
@formats
def test_file_id_schemes_are_supported(table: Callable[[str], Table], scheme: str, capabilities: str | None) -> None:
    reply = table("cdf_table_cdf_enabled").with_capabilities(capabilities, fileidhash=scheme)
    feeds = reply.changes("?startingVersion=0&endingVersion=3")
    assert feeds.headers["fileidhash"] == scheme
    ids = [line["id"] for line in feeds.only("file", "add", "cdf")]
    assert {len(text) for text in ids} == {32 if scheme == "parquet" else 64}
    assert len(set(ids)) == 5


@formats
def test_a_feed_can_be_read_in_pages(table: Callable[[str], Table], capabilities: str | None) -> None:
    shared_table = table("cdf_table_cdf_enabled").with_capabilities(capabilities)
    replies = pages(shared_table, "?startingVersion=0&endingVersion=2&maxFiles=2")
    assert [len(page.lines) for page in replies] == [5, 5]
    assert replies[0].lines[:2] == replies[1].lines[:2]
    assert replies[0].body.splitlines()[:2] == replies[1].body.splitlines()[:2]
    partitioned = table("cdf_table_with_partition").with_capabilities(capabilities)
    replies = pages(partitioned, "?startingVersion=2&maxFiles=1")
    assert [story(page)[2] for page in replies] == [("cdf", 2), ("cdf", 2), ("remove", 3)]
    for size in range(1, 7):
        replies = pages(partitioned, f"?startingVersion=1&maxFiles={size}")
        complete = partitioned.changes("?startingVersion=1")
        assert [line for page in replies for line in story(page)[2:-1]] == story(complete)[2:]


@formats
@pytest.mark.parametrize("flag", ["true", "True", "TRUE"])
def test_a_feed_can_include_historical_metadata(
    table: Callable[[str], Table], flag: str, capabilities: str | None
) -> None:
    shared_table = table("streaming_notnull_to_null").with_capabilities(capabilities)
    reply = shared_table.changes(f"?startingVersion=0&includeHistoricalMetadata={flag}")
    head = [("protocol", None), ("metaData", 0)]
    assert story(reply) == [*head, ("add", 1), ("metaData", 2), ("add", 3)]
    metadata = [line.get("deltaMetadata", line) for line in reply.only("metaData")]
    nullable = [json.loads(line["schemaString"])["fields"][0]["nullable"] for line in metadata]
    assert nullable == [False, True]
    first, second = pages(shared_table, f"?startingVersion=0&includeHistoricalMetadata={flag}&maxFiles=1")
    assert story(first) == [*head, ("add", 1), ("metaData", 2), ("endStreamAction", None)]
    assert story(second) == [*head, ("add", 3), ("endStreamAction", None)]


@formats
def test_without_the_flag_a_feed_starts_with_the_latest_metadata(
    table: Callable[[str], Table], capabilities: str | None
) -> None:
    for parameters in ("?startingVersion=0", "?startingVersion=0&includeHistoricalMetadata=False"):
        reply = table("streaming_notnull_to_null").with_capabilities(capabilities).changes(parameters)
        assert story(reply) == [("protocol", None), ("metaData", 3), ("add", 1), ("add", 3)]
        replies = pages(table("streaming_notnull_to_null").with_capabilities(capabilities), f"{parameters}&maxFiles=1")
        assert [len(page.lines) for page in replies] == [4, 4]


@pytest.mark.parametrize(
    ("parameters", "protocols"),
    [
        ("?startingVersion=0", [(None, 4)]),
        ("?startingVersion=0&includeHistoricalProtocol=true", [(4, 4), (2, 4)]),
        ("?startingVersion=2&includeHistoricalProtocol=true", [(4, 4)]),
        ("?startingVersion=0&includeHistoricalProtocol=True&includeHistoricalMetadata=True", [(0, 2), (2, 4)]),
    ],
)
def test_historical_protocols_can_be_included(
    table: Callable[[str], Table], parameters: str, protocols: list[tuple[int | None, int]]
) -> None:
    lines = table("protocol_evolution").with_capabilities("responseformat=delta").changes(parameters).only("protocol")
    assert [(line.get("version"), line["deltaProtocol"]["minWriterVersion"]) for line in lines] == protocols
    assert table("protocol_evolution").changes(parameters).only("protocol") == [{"minReaderVersion": 1}]


def test_vacuumed_files_are_still_listed(table: Callable[[str], Table]) -> None:
    reply = table("cdf_table_with_vacuum").changes("?startingVersion=0")
    assert story(reply)[2:] == [("add", 1)] * 4 + [("cdf", 2), ("cdf", 3)]
    assert {download(data_url(line)).status for line in reply.only("add", "cdf")} == {404}


def test_a_version_without_changes_has_an_empty_feed(table: Callable[[str], Table]) -> None:
    reply = table("cdf_table_cdf_enabled").changes("?startingVersion=5")
    assert (reply.status, reply.version) == (200, 5)
    assert story(reply) == [("protocol", None), ("metaData", 5)]


def test_an_end_after_the_latest_version_is_clipped(table: Callable[[str], Table]) -> None:
    """Unlike in a query since a version; the reference differs between the two as well."""
    shared_table = table("cdf_table_with_partition")
    assert story(shared_table.changes("?startingVersion=1&endingVersion=99")) == story(
        shared_table.changes("?startingVersion=1")
    )


def test_a_feed_can_have_deletion_vectors(table: Callable[[str], Table]) -> None:
    """The reference has no feed of such tables; cdc files have no deletion vectors."""
    reply = (
        table("deletion_vector_kinds")
        .with_capabilities(READS_ALL)
        .changes("?startingVersion=1&includeHistoricalMetadata=true")
    )
    assert story(reply)[2:] == [("add", 1)] * 3 + [("cdf", 2), ("cdf", 3), ("cdf", 4)]
    actions = [next(iter(line["deltaSingleAction"].values())) for line in reply.only("file")]
    assert not any("deletionVector" in action for action in actions)


REFUSED: Mapping[str, tuple[str, str, str, str]] = {
    "no history": ("table2", "", "INVALID_PARAMETER_VALUE", "cdf is not enabled on table share2.default.table2"),
    "no start": (
        "cdf_table_cdf_enabled",
        "",
        "INVALID_PARAMETER_VALUE",
        "No startingVersion or startingTimestamp provided for CDF read",
    ),
    "only an end": (
        "cdf_table_cdf_enabled",
        "?endingVersion=1",
        "INVALID_PARAMETER_VALUE",
        "No startingVersion or startingTimestamp provided for CDF read",
    ),
    "both starts": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&startingTimestamp=abc",
        "INVALID_PARAMETER_VALUE",
        "Multiple starting arguments provided for CDF read. Please provide one of either",
    ),
    "both ends": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&endingVersion=1&endingTimestamp=abc",
        "INVALID_PARAMETER_VALUE",
        "Multiple ending arguments provided for CDF read. Please provide one of either",
    ),
    "a date": (
        "cdf_table_cdf_enabled",
        "?startingTimestamp=2022-04-29",
        "INVALID_PARAMETER_VALUE",
        "Invalid startingTimestamp",
    ),
    "a date at the end": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&endingTimestamp=2022-04-29",
        "INVALID_PARAMETER_VALUE",
        "Invalid endingTimestamp",
    ),
    "too early": (
        "cdf_table_cdf_enabled",
        "?startingTimestamp=2000-01-01T00:00:00Z",
        "INVALID_PARAMETER_VALUE",
        "The provided timestamp (2000-01-01 00:00:00.0)",
    ),
    "too early, with what to do": (
        "cdf_table_cdf_enabled",
        "?startingTimestamp=2000-01-01T00:00:00Z",
        "INVALID_PARAMETER_VALUE",
        "Please use a timestamp greater",
    ),
    "too late": (
        "cdf_table_cdf_enabled",
        "?startingTimestamp=9999-01-01T00:00:00Z",
        "INVALID_PARAMETER_VALUE",
        "The provided timestamp (",
    ),
    "an end too late": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&endingTimestamp=2100-01-01T00:00:00Z",
        "INVALID_PARAMETER_VALUE",
        "Please use a timestamp less",
    ),
    "backwards": (
        "cdf_table_cdf_enabled",
        "?startingVersion=2&endingVersion=1",
        "INVALID_PARAMETER_VALUE",
        "CDF range from start 2 to end 1 was invalid. End cannot be before start",
    ),
    "after the latest": (
        "cdf_table_cdf_enabled",
        "?startingVersion=6",
        "INVALID_PARAMETER_VALUE",
        (
            "Provided Start version(6) for reading change data is invalid. "
            "Start version cannot be greater than the latest version of the table(5)"
        ),
    ),
    "off inside": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&endingVersion=5",
        "INVALID_PARAMETER_VALUE",
        "Error getting change data for range [0, 5] as change data was not recorded for version [4]",
    ),
    "off at the start": (
        "cdf_table_cdf_enabled",
        "?startingVersion=4",
        "INVALID_PARAMETER_VALUE",
        "Error getting change data for range [4, 5] as change data was not recorded for version [4]",
    ),
    "before the start version": (
        "cdf_table_with_partition",
        "?startingVersion=0",
        "INVALID_PARAMETER_VALUE",
        "You can only query table changes since version 1",
    ),
    "maxFiles negative": ("table2", "?maxFiles=-1", "INVALID_PARAMETER_VALUE", "maxFiles must be positive"),
    "maxFiles zero": ("cdf_table_cdf_enabled", "?maxFiles=0", "INVALID_PARAMETER_VALUE", "maxFiles must be positive"),
    "maxFiles text": ("table2", "?maxFiles=string", "INVALID_PARAMETER_VALUE", "expected a number but"),
    "version text": (
        "cdf_table_cdf_enabled",
        "?startingVersion=abc",
        "INVALID_PARAMETER_VALUE",
        "startingVersion is not a valid number",
    ),
    "end text": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&endingVersion=abc",
        "INVALID_PARAMETER_VALUE",
        "endingVersion is not a valid number",
    ),
    "negative": ("cdf_table_cdf_enabled", "?startingVersion=-1", "INVALID_PARAMETER_VALUE", "cannot be negative"),
    "a lost commit": ("cdf_table_missing_log", "?startingVersion=1", "RESOURCE_DOES_NOT_EXIST", "table files missing"),
    "a foreign token": (
        "cdf_table_cdf_enabled",
        "?startingVersion=0&pageToken=foo",
        "INVALID_PARAMETER_VALUE",
        "Error decoding the page token",
    ),
}


@formats
@pytest.mark.parametrize(("name", "parameters", "code", "text"), REFUSED.values(), ids=REFUSED)
def test_invalid_requests_for_a_feed_are_refused(
    table: Callable[[str], Table], *, name: str, parameters: str, code: str, text: str, capabilities: str | None
) -> None:
    table(name).with_capabilities(capabilities).changes(parameters).refused(400, code, text)


def test_an_unknown_file_id_scheme_is_refused_before_the_range_is_read(table: Callable[[str], Table]) -> None:
    reply = table("cdf_table_cdf_enabled").with_capabilities(fileidhash="md5").changes()
    reply.refused(400, "INVALID_PARAMETER_VALUE", "Unsupported fileidhash: 'md5'")


def test_a_table_shared_by_directory_has_no_urls(table: Callable[[str], Table]) -> None:
    table("directory_only").changes("?startingVersion=0").refused(400, "UNSUPPORTED_OPERATION", "directory access")


def test_page_tokens_are_valid_only_for_their_feed(table: Callable[[str], Table]) -> None:
    shared_table = table("cdf_table_with_partition")
    token = shared_table.changes("?startingVersion=1&maxFiles=1").end["nextPageToken"]
    mismatch = "Query parameter mismatch detected for the next page query"
    for parameters in ("?startingVersion=2", "?startingVersion=1&endingVersion=2", "?startingTimestamp=x"):
        reply = shared_table.changes(f"{parameters}&maxFiles=1&pageToken={token}")
        assert reply.status == 400
    reply = shared_table.changes(f"?startingVersion=1&includeHistoricalMetadata=true&maxFiles=1&pageToken={token}")
    reply.refused(400, "INVALID_PARAMETER_VALUE", mismatch)
    refused = table("cdf_table_cdf_enabled").changes(f"?startingVersion=1&maxFiles=1&pageToken={token}")
    refused.refused(400, "INVALID_PARAMETER_VALUE", "does not match the table being queried")


def test_a_feed_is_compressed_for_clients_that_accept_it(table: Callable[[str], Table]) -> None:
    parameters: Any = "?startingVersion=0&endingVersion=3"
    packed = table("cdf_table_cdf_enabled").with_capabilities(accept_encoding="gzip,deflate").changes(parameters)
    assert packed.headers["content-encoding"] == "gzip"
    assert story(packed) == story(table("cdf_table_cdf_enabled").changes(parameters))


def test_a_time_before_the_first_commit_is_refused_with_the_earliest_time(table: Callable[[str], Table]) -> None:
    shared_table = table("cdf_table_with_partition")
    message = shared_table.changes("?startingTimestamp=2000-01-01T00:00:00Z").json["message"]
    match = re.search(r"greater than or equal to .* \((\S+Z)\)\.$", message)
    assert match is not None, message
    reply = shared_table.changes(f"?startingTimestamp={match[1]}")
    # What would do is version 0, which this table does not share: the reason of this refusal is another.
    reply.refused(400, "INVALID_PARAMETER_VALUE", "You can only query table changes since version 1")
    shared = table("cdf_table_cdf_enabled")
    match = re.search(r" \((\S+Z)\)\.$", shared.changes("?startingTimestamp=2000-01-01T00:00:00Z").json["message"])
    assert match is not None
    assert shared.changes(f"?startingTimestamp={match[1]}&endingVersion=3").version == 0


def test_every_partition_column_is_named_in_parquet_format(server: Server) -> None:
    """Spark omits null values of a remove, and its sharing connector fails on a missing column."""
    log = server.shelf.log("gaps", PEOPLE, partitions=("birthday",), configuration=dict(CDF_ON))
    added = [
        log.add([{"name": str(age), "age": age}], birthday=day) for age, day in enumerate([None, date(2020, 1, 1)])
    ]
    removed = [log.remove(file) for file in added]
    changed = log.cdc([{"name": "0", "age": 0, "_change_type": "delete"}])
    file = log.add([{"name": "2", "age": 2}])
    for action in (removed[0]["remove"], changed["cdc"], file["add"]):
        del action["partitionValues"]["birthday"]
    log.create(*added)
    log.commit(removed[0], changed)
    log.commit(removed[1])
    log.commit(file)
    server.admin.tables.create("share1", "default", "gaps", log.location, history=True)
    table = Table(server.alice, "share1", "default", "gaps")
    try:
        dates: Any = {"2020-01-01"}
        for kind, days in {"add": [None, *dates, None], "cdf": [None], "remove": [*dates]}.items():
            lines = table.changes("?startingVersion=0").only(kind)
            assert [line["partitionValues"] for line in lines] == [{"birthday": day} for day in days]
        for kind, days in {"add": [None, *dates, None], "remove": [None, *dates]}.items():
            lines = table.query(startingVersion=0).only(kind)
            assert [line["partitionValues"] for line in lines] == [{"birthday": day} for day in days]
        assert [line["partitionValues"] for line in table.query().only("file")] == [{"birthday": None}]
    finally:
        server.admin.tables.delete("share1", "default", "gaps")
