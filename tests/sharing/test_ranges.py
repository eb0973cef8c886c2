"""A range of versions is answered whole and right, or refused before its first line."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.errors import InvalidParameter, TableUnreadable, Unavailable, UnsupportedOperation
from deltaic.protocol.sealed_tokens import TokenSigner
from deltaic.storage.sessions import SigningSessions
from sharing.means import ALL, Feed, Keys, lines, opened, sharing

ON = {"delta.enableChangeDataFeed": "true"}
OFF = {"delta.enableChangeDataFeed": "false"}
MARK = vector("ab^-aqEH.-t@S}K{vb[*k^")


def test_a_remove_of_a_marked_file_is_refused_to_who_would_misread_it(tmp_path: Path) -> None:
    """A bare remove would take away the rows that the vector had deleted before."""
    log = HandmadeLog(tmp_path)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("a", vector=MARK))
    log.commit(remove("a", vector=MARK))
    with pytest.raises(UnsupportedOperation, match="deletionVectors"):
        Feed(tmp_path).answer(2, 2)
    answer = Feed(tmp_path, ALL).answer(2, 2)
    assert answer.response_format == "delta"
    (line,) = [found["file"] for found in lines(answer) if "file" in found]
    assert line["deltaSingleAction"]["remove"]["deletionVector"]["cardinality"] == 1


def test_the_access_log_is_told_what_was_signed(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("a", 3))
    log.commit(remove("a"), add("b", 7, vector=MARK))
    log.commit({"cdc": {"path": "c", "partitionValues": {"p": "a"}, "size": 5, "dataChange": False}}, add("d", 9))
    feed = Feed(tmp_path, ALL)
    found = lines(feed.answer(1, 3))
    told = feed.access.facts()
    assert told["lines"] == len(found)
    assert {name: told[name] for name in ("endVersion", "files", "bytes")} == {
        "endVersion": 3,
        "files": 4,
        "bytes": 3 + 3 + 7 + 5,
    }
    assert "session" not in told, "keys that are the storage's own have no session"
    assert [told[name] for name in ("deletionVectors", "changeFiles", "removedFiles")] == [1, 1, 1]
    assert "SECRET" not in str(told).upper()


class NoKeys(Keys):
    """AWS, where the secret holds something else."""

    def get_secret_value(self, SecretId: str) -> Mapping[str, str]:  # noqa: N803 -- AWS's name
        return {"SecretString": SecretId}


def no_signer() -> TokenSigner:
    raise Unavailable("the key of tokens is out of reach")


def test_keys_that_are_refused_are_refused_before_the_answer_begins(tmp_path: Path) -> None:
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
    for ask in ({"maxFiles": 1}, {"includeRefreshToken": True}):
        with pytest.raises(Unavailable, match="key of tokens"):
            feed.query(**ask)


@pytest.mark.parametrize(
    ("start", "end", "named"),
    [
        pytest.param(0, 5, 4, id="turned_off_inside"),
        pytest.param(4, 5, 4, id="off_at_the_start"),
        pytest.param(0, 3, None, id="on_all_along"),
        pytest.param(5, 5, None, id="on_again"),
        pytest.param(3, 3, None, id="one_version"),
    ],
)
def test_ranges_without_change_data_are_refused(tmp_path: Path, start: int, end: int, named: int | None) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(metadata(ON), protocol())
    for version in (1, 2, 3):
        log.commit(add(f"f{version}"))
    log.commit(metadata(OFF))
    log.commit(metadata(ON))
    feed = Feed(tmp_path)
    if named is None:
        feed.answer(start, end)
    else:
        with pytest.raises(InvalidParameter) as refusal:
            feed.answer(start, end)
        assert refusal.value.message == (
            f"Error getting change data for range [{start}, {end}] as change data was not recorded "
            f"for version [{named}]"
        )


COMMITS = 200


def reads(feed: Feed) -> int:
    """Return how many objects were read since it was last asked."""
    found = sum(call.startswith("get ") and call.endswith(".json") for call in feed.store.calls)
    feed.store.calls.clear()
    return found


def long_log(root: Path) -> None:
    log = HandmadeLog(root)
    log.commit(protocol(), metadata(ON))
    for version in range(1, COMMITS + 1):
        log.commit(add(f"f{version}"))
    log.classic(COMMITS)


def test_a_range_is_read_once(tmp_path: Path) -> None:
    long_log(tmp_path)
    feed = Feed(tmp_path)
    found = lines(feed.answer(0, COMMITS))
    assert [line["add"]["version"] for line in found[2:]] == list(range(1, COMMITS + 1))
    # Version 0 is read for its metadata too.
    assert reads(feed) == COMMITS + 1 + 1


def test_a_later_page_reads_no_further_than_it_reaches(tmp_path: Path) -> None:
    long_log(tmp_path)
    feed = Feed(tmp_path, max_files=10)
    found = lines(feed.answer(0, COMMITS))
    pages = [found]
    assert reads(feed) == COMMITS + 1 + 1
    while (page := opened(feed, pages[-1])) is not None:
        pages.append(lines(feed.answer(0, COMMITS, page)))
        assert reads(feed) <= 32
    versions = [line["add"]["version"] for found in pages for line in found if "add" in line]
    assert versions == list(range(1, COMMITS + 1))
    assert len(pages) == COMMITS // 10


def test_commits_beyond_what_is_kept_are_read_again(tmp_path: Path) -> None:
    """Memory is bounded in bytes, whatever the number of commits."""
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(ON))
    log.commit(add("gone"))
    for number in range(4):
        log.commit(add(f"f{number}", tags={"large": "x" * (3 << 20)}))
    log.commit({"remove": {"path": "gone", "dataChange": True}})
    feed = Feed(tmp_path)
    answer = feed.answer(0, 6)
    feed.store.calls.clear()
    found = lines(answer)
    assert [next(iter(line)) for line in found] == ["protocol", "metaData"] + ["add"] * 5 + ["remove"]
    assert found[-1]["remove"]["size"] == log.commits[1][0]["add"]["size"]
    again = [f"get _delta_log/{version:020d}.json" for version in range(4, 7)]
    assert [call for call in feed.store.calls if call in again] == again


def commits_fetched(feed: Feed) -> int:
    found = [call for call in feed.store.calls if call.startswith("get ") and call.endswith(".json")]
    feed.store.calls.clear()
    return len(found)


def test_only_the_first_page_of_a_range_reads_all_its_commits(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(ON))
    for number in range(1, 100):
        log.commit(add(f"f{number}"))
    log.classic(99)
    feed = Feed(tmp_path, max_files=1)
    first = lines(feed.answer(0, 99))
    assert commits_fetched(feed) == 101, "all of the range, and what version 0 says of itself"
    # Whoever asks for the same page again and again, or goes on, has them fetched no more.
    assert [next(iter(line)) for line in lines(feed.answer(0, 99))] == [next(iter(line)) for line in first]
    page = opened(feed, first)
    assert page is not None
    second = lines(feed.answer(0, 99, page))
    assert commits_fetched(feed) == 0
    # Another process, which has read nothing, fetches what the page may need.
    other = Feed(tmp_path, max_files=1)
    other.sharing = feed.sharing
    assert [line["add"]["id"] for line in lines(other.answer(0, 99, page)) if "add" in line] == [
        line["add"]["id"] for line in second if "add" in line
    ]
    assert commits_fetched(other) == 2
