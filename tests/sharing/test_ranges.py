"""A range of versions is answered completely and correctly, or refused before its first line."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.errors import InvalidParameter, TableUnreadable, Unavailable, UnsupportedOperation
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.storage.sessions import SigningSessions
from sharing.means import ALL, Feed, Keys, lines, next_page, sharing

ON = {"delta.enableChangeDataFeed": "true"}
OFF = {"delta.enableChangeDataFeed": "false"}
MARK = vector("ab^-aqEH.-t@S}K{vb[*k^")


def test_remove_with_a_vector_is_refused_to_clients_that_would_misread_it(tmp_path: Path) -> None:
    """A remove without the vector would also delete the rows that the vector has deleted before."""
    log = HandmadeLog(tmp_path)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("a", vector=MARK))
    log.commit(remove("a", vector=MARK))
    with pytest.raises(UnsupportedOperation, match="deletionVectors"):
        Feed(tmp_path).answer(2, 2)
    answer = Feed(tmp_path, ALL).answer(2, 2)
    assert answer.response_format == "delta"
    (line,) = [item["file"] for item in lines(answer) if "file" in item]
    assert line["deltaSingleAction"]["remove"]["deletionVector"]["cardinality"] == 1


def test_access_log_has_the_counts_of_the_answer(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("a", 3))
    log.commit(remove("a"), add("b", 7, vector=MARK))
    log.commit({"cdc": {"path": "c", "partitionValues": {"p": "a"}, "size": 5, "dataChange": False}}, add("d", 9))
    feed = Feed(tmp_path, ALL)
    answer_lines = lines(feed.answer(1, 3))
    facts = feed.access.facts()
    assert facts["lines"] == len(answer_lines)
    assert {name: facts[name] for name in ("endVersion", "files", "bytes")} == {
        "endVersion": 3,
        "files": 4,
        "bytes": 3 + 3 + 7 + 5,
    }
    assert "session" not in facts, "static keys of a storage have no session"
    assert [facts[name] for name in ("deletionVectors", "changeFiles", "removedFiles")] == [1, 1, 1]
    assert "SECRET" not in str(facts).upper()


class NoKeys(Keys):
    """AWS client that returns an invalid secret."""

    def get_secret_value(self, SecretId: str) -> Mapping[str, str]:  # noqa: N803 -- AWS's name
        return {"SecretString": SecretId}


def no_signer() -> TokenSigner:
    raise Unavailable("the key of tokens is unavailable")


def test_missing_keys_are_refused_before_the_answer_begins(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(ON))
    log.commit(add("a"), add("b"))
    feed = Feed(tmp_path)
    feed.sharing = sharing(sessions=SigningSessions(client=lambda _: NoKeys()))
    with pytest.raises(TableUnreadable, match="secret of the table's storage"):
        feed.answer(0, 1)
    feed.sharing = sharing(token_key=no_signer)
    assert [next(iter(line)) for line in lines(feed.answer(0, 1))] == ["protocol", "metaData", "add", "add"]
    feed.max_files = 1
    with pytest.raises(Unavailable, match="key of tokens"):
        feed.answer(0, 1)
    for body in ({"maxFiles": 1}, {"includeRefreshToken": True}):
        with pytest.raises(Unavailable, match="key of tokens"):
            feed.query(**body)


@pytest.mark.parametrize(
    ("start", "end", "missing"),
    [
        pytest.param(0, 5, 4, id="turned_off_inside"),
        pytest.param(4, 5, 4, id="off_at_the_start"),
        pytest.param(0, 3, None, id="on_all_along"),
        pytest.param(5, 5, None, id="on_again"),
        pytest.param(3, 3, None, id="one_version"),
    ],
)
def test_ranges_without_change_data_are_refused(tmp_path: Path, start: int, end: int, missing: int | None) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(ON), protocol())
    for version in (1, 2, 3):
        log.commit(add(f"f{version}"))
    log.commit(metadata(OFF))
    log.commit(metadata(ON))
    feed = Feed(tmp_path)
    if missing is None:
        feed.answer(start, end)
    else:
        with pytest.raises(InvalidParameter) as refusal:
            feed.answer(start, end)
        assert refusal.value.message == (
            f"Error getting change data for range [{start}, {end}] as change data was not recorded "
            f"for version [{missing}]"
        )


COMMITS = 200


def count_reads(feed: Feed) -> int:
    """Return how many objects were read since the last call."""
    count = sum(call.startswith("get ") and call.endswith(".json") for call in feed.store.calls)
    feed.store.calls.clear()
    return count


def long_log(root: Path) -> None:
    log = HandmadeLog(root)
    log.commit(protocol(), metadata(ON))
    for version in range(1, COMMITS + 1):
        log.commit(add(f"f{version}"))
    log.classic(COMMITS)


def test_a_range_is_read_once(tmp_path: Path) -> None:
    long_log(tmp_path)
    feed = Feed(tmp_path)
    answer_lines = lines(feed.answer(0, COMMITS))
    assert [line["add"]["version"] for line in answer_lines[2:]] == list(range(1, COMMITS + 1))
    # Version 0 is read for its metadata too.
    assert count_reads(feed) == COMMITS + 1 + 1


def test_later_page_reads_only_its_own_commits(tmp_path: Path) -> None:
    long_log(tmp_path)
    feed = Feed(tmp_path, max_files=10)
    page_lines = lines(feed.answer(0, COMMITS))
    pages = [page_lines]
    assert count_reads(feed) == COMMITS + 1 + 1
    while (page := next_page(feed, pages[-1])) is not None:
        pages.append(lines(feed.answer(0, COMMITS, page)))
        assert count_reads(feed) <= 32
    versions = [line["add"]["version"] for page_lines in pages for line in page_lines if "add" in line]
    assert versions == list(range(1, COMMITS + 1))
    assert len(pages) == COMMITS // 10


def test_commits_beyond_the_memory_limit_are_read_again(tmp_path: Path) -> None:
    """The limit of memory is in bytes, not in commits."""
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(ON))
    log.commit(add("gone"))
    for number in range(4):
        log.commit(add(f"f{number}", tags={"large": "x" * (3 << 20)}))
    log.commit({"remove": {"path": "gone", "dataChange": True}})
    feed = Feed(tmp_path)
    answer = feed.answer(0, 6)
    feed.store.calls.clear()
    answer_lines = lines(answer)
    assert [next(iter(line)) for line in answer_lines] == ["protocol", "metaData"] + ["add"] * 5 + ["remove"]
    assert answer_lines[-1]["remove"]["size"] == log.commits[1][0]["add"]["size"]
    again = [f"get _delta_log/{version:020d}.json" for version in range(4, 7)]
    assert [call for call in feed.store.calls if call in again] == again


def count_read_commits(feed: Feed) -> int:
    commits = [call for call in feed.store.calls if call.startswith("get ") and call.endswith(".json")]
    feed.store.calls.clear()
    return len(commits)


def test_only_the_first_page_of_a_range_reads_all_its_commits(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(ON))
    for number in range(1, 100):
        log.commit(add(f"f{number}"))
    log.classic(99)
    feed = Feed(tmp_path, max_files=1)
    first = lines(feed.answer(0, 99))
    assert count_read_commits(feed) == 101, "all commits of the range, and version 0 for its metadata"
    # Requests for the same page or the next one do not read them again.
    assert [next(iter(line)) for line in lines(feed.answer(0, 99))] == [next(iter(line)) for line in first]
    page = next_page(feed, first)
    assert page is not None
    second = lines(feed.answer(0, 99, page))
    assert count_read_commits(feed) == 0
    # Another process, with an empty cache, reads only the commits of the page.
    other = Feed(tmp_path, max_files=1)
    other.sharing = feed.sharing
    assert [line["add"]["id"] for line in lines(other.answer(0, 99, page)) if "add" in line] == [
        line["add"]["id"] for line in second if "add" in line
    ]
    assert count_read_commits(other) == 2
