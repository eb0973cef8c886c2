"""The first shared version returns only the files that it added, not files of earlier versions."""

from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove, vector
from sharing.means import Feed, lines, next_page

ON = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
OLD = vector("ab^-aqEH.-t@S}K{vb[*k^")
DELTA = "responseformat=delta;readerfeatures=deletionvectors"
NEW = vector("cd^-aqEH.-t@S}K{vb[*k^", 7)


def cdc(path: str) -> Action:
    return {"cdc": {"path": path, "partitionValues": {"p": "a"}, "size": 1, "dataChange": False}}


def write_table(root: Path, *second: Action) -> HandmadeLog:
    """Write a table with these actions in version 2, and a remove in version 3."""
    log = HandmadeLog(root)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("kept"), add("gone"), add("marked", vector=OLD))
    log.commit(*second)
    log.commit(remove("kept"), cdc("_change_data/later"))
    return log


def changes_in(answer_lines: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    """Return kind, version and file of each change, in either format."""
    result = []
    for line in answer_lines:
        for kind in line.keys() & {"add", "remove", "cdf", "file"}:
            action = line[kind]
            content = action.get("deltaSingleAction", {kind: action})
            ((action_name, inner),) = content.items()
            url = inner.get("path") or inner["url"]
            version = action.get("version")
            result.append((action_name, version, url.partition("?")[0].rpartition("/lake/t/")[2]))
    return result


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
def test_files_of_earlier_versions_are_not_returned(
    tmp_path: Path, second: list[Action], expected: list[str], *, feed: bool
) -> None:
    write_table(tmp_path, *second)
    later = ("cdc", 3, "_change_data/later") if feed else ("remove", 3, "kept")
    client = Feed(tmp_path, DELTA, start_version=2)
    answer_lines = lines(client.answer(2, 3, feed=feed))
    assert changes_in(answer_lines) == [*[("add", 2, name) for name in expected], later]
    assert "gone" not in str(answer_lines)
    assert "_change_data/now" not in str(answer_lines)


@pytest.mark.parametrize("feed", [True, False])
def test_earlier_start_version_returns_all_changes(tmp_path: Path, *, feed: bool) -> None:
    write_table(tmp_path, *REPLACED)
    client = Feed(tmp_path, DELTA, start_version=1)
    assert changes_in(lines(client.answer(2, 2, feed=feed))) == [("remove", 2, "gone"), ("add", 2, "new")]
    unfiltered = Feed(tmp_path, DELTA)
    assert len(changes_in(lines(unfiltered.answer(0, 2, feed=feed)))) == 5


def test_missing_size_of_an_earlier_file_is_no_error(tmp_path: Path) -> None:
    """Removes of old writers have no size, and the version before may have been deleted."""
    log = write_table(tmp_path, {"remove": {"path": "gone", "dataChange": True}}, add("new"))
    log.classic(2)
    log.forget(0, 1)
    assert changes_in(lines(Feed(tmp_path, DELTA, start_version=2).answer(2, 2))) == [("add", 2, "new")]


def test_pages_have_the_same_changes_as_one_answer(tmp_path: Path) -> None:
    write_table(tmp_path, remove("gone"), add("new1"), remove("marked", OLD), add("new2"), add("new3"))
    all_changes = changes_in(lines(Feed(tmp_path, DELTA, start_version=2).answer(2, 3)))
    feed = Feed(tmp_path, DELTA, max_files=1, start_version=2)
    pages = [lines(feed.answer(2, 3))]
    while (page := next_page(feed, pages[-1])) is not None:
        # A lower start version between pages does not change the pages: changes keep their numbers.
        feed.start_version = 1 if len(pages) == 2 else 2
        pages.append(lines(feed.answer(2, 3, page)))
    assert [change for page_lines in pages for change in changes_in(page_lines) if change[0] == "add"] == [
        change for change in all_changes if change[0] == "add"
    ]
