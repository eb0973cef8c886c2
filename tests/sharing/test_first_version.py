"""Of the first shared version's commit is told what it added; what was live only before it stays with the provider."""

from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove, vector
from sharing.means import Feed, lines, opened

ON = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
OLD = vector("ab^-aqEH.-t@S}K{vb[*k^")
DELTA = "responseformat=delta;readerfeatures=deletionvectors"
NEW = vector("cd^-aqEH.-t@S}K{vb[*k^", 7)


def cdc(path: str) -> Action:
    return {"cdc": {"path": path, "partitionValues": {"p": "a"}, "size": 1, "dataChange": False}}


def written(root: Path, *second: Action) -> HandmadeLog:
    """Write a table whose version 2 does what is asked, and whose version 3 removes what version 2 has."""
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("kept"), add("gone"), add("marked", vector=OLD))
    log.commit(*second)
    log.commit(remove("kept"), cdc("_change_data/later"))
    return log


def told(found: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    """Return kind, version and file of each change, whatever the format."""
    changes = []
    for line in found:
        for kind in line.keys() & {"add", "remove", "cdf", "file"}:
            action = line[kind]
            content = action.get("deltaSingleAction", {kind: action})
            ((spelled, inner),) = content.items()
            url = inner.get("path") or inner["url"]
            version = action.get("version")
            changes.append((spelled, version, url.partition("?")[0].rpartition("/lake/t/")[2]))
    return changes


REPLACED = [remove("gone"), add("new")]
MARKED = [remove("marked", OLD), add("marked", vector=NEW)]


@pytest.mark.parametrize(
    ("second", "feed", "expected"),
    [
        pytest.param(REPLACED, True, ["new"], id="feed_without_change_data"),
        pytest.param([*REPLACED, cdc("_change_data/now")], True, [], id="feed_with_change_data"),
        pytest.param([remove("gone")], True, [], id="feed_of_a_delete"),
        pytest.param([*MARKED, add("new")], True, ["new"], id="feed_of_marked_rows"),
        pytest.param([*REPLACED, cdc("_change_data/now")], False, ["new"], id="query"),
        pytest.param([remove("gone")], False, [], id="query_of_a_delete"),
        pytest.param(MARKED, False, ["marked"], id="query_of_marked_rows"),
    ],
)
def test_what_was_live_only_before_the_first_shared_version_is_not_told(
    tmp_path: Path, second: list[Action], expected: list[str], *, feed: bool
) -> None:
    written(tmp_path, *second)
    later = ("cdc", 3, "_change_data/later") if feed else ("remove", 3, "kept")
    asked = Feed(tmp_path, DELTA, start_version=2)
    found = lines(asked.answer(2, 3, feed=feed))
    assert told(found) == [*[("add", 2, name) for name in expected], later]
    assert "gone" not in str(found)
    assert "_change_data/now" not in str(found)


@pytest.mark.parametrize("feed", [True, False])
def test_a_table_that_is_shared_from_further_back_tells_all(tmp_path: Path, *, feed: bool) -> None:
    written(tmp_path, *REPLACED)
    asked = Feed(tmp_path, DELTA, start_version=1)
    assert told(lines(asked.answer(2, 2, feed=feed))) == [("remove", 2, "gone"), ("add", 2, "new")]
    whole = Feed(tmp_path, DELTA)
    assert len(told(lines(whole.answer(0, 2, feed=feed)))) == 5


def test_a_file_that_the_version_before_no_longer_names_is_not_missed(tmp_path: Path) -> None:
    """Old writers' removes tell no size, and the version before may have been cleaned up with its commits."""
    log = written(tmp_path, {"remove": {"path": "gone", "dataChange": True}}, add("new"))
    log.classic(2)
    log.forget(0, 1)
    assert told(lines(Feed(tmp_path, DELTA, start_version=2).answer(2, 2))) == [("add", 2, "new")]


def test_pages_hold_what_one_answer_holds(tmp_path: Path) -> None:
    written(tmp_path, remove("gone"), add("new1"), remove("marked", OLD), add("new2"), add("new3"))
    whole = told(lines(Feed(tmp_path, DELTA, start_version=2).answer(2, 3)))
    feed = Feed(tmp_path, DELTA, max_files=1, start_version=2)
    pages = [lines(feed.answer(2, 3))]
    while (page := opened(feed, pages[-1])) is not None:
        # A start version that is lowered between pages moves no page: changes keep their numbers.
        feed.start_version = 1 if len(pages) == 2 else 2
        pages.append(lines(feed.answer(2, 3, page)))
    assert [change for found in pages for change in told(found) if change[0] == "add"] == [
        change for change in whole if change[0] == "add"
    ]
