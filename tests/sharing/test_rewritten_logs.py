"""Later pages and refreshes are refused after the newest commit was replaced.

This happens if an operator restores a commit or a backup: version and checkpoint stay the same.
"""

from pathlib import Path

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol
from deltaic.errors import InvalidParameter
from sharing.means import Feed, lines, next_page

REWRITTEN = r"^The table's log has been rewritten since this query began\. Please restart the query\.$"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    log = HandmadeLog(tmp_path)
    log.commit(
        protocol(), metadata({"delta.enableChangeDataFeed": "true"}), *(add(f"old-{number}") for number in range(3))
    )
    log.classic(0)
    log.hint(0)
    log.commit(*(add(f"new-{number}") for number in range(3)))
    return Feed(tmp_path, "includeendstreamaction=true", max_files=2)


def replace_newest_commit(feed: Feed) -> None:
    """Replace version 1 by a commit of the same size, with its files in another order."""
    path = feed.root / "_delta_log" / f"{1:020d}.json"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))


def test_next_page_of_a_rewritten_version_is_refused(feed: Feed) -> None:
    token = lines(feed.query(maxFiles=2))[-1]["endStreamAction"]["nextPageToken"]
    assert len(lines(feed.query(maxFiles=2, pageToken=token))) == 5
    replace_newest_commit(feed)
    with pytest.raises(InvalidParameter, match=REWRITTEN):
        feed.query(maxFiles=2, pageToken=token)


def test_refresh_of_a_rewritten_version_is_refused(feed: Feed) -> None:
    token = lines(feed.query(includeRefreshToken=True))[-1]["endStreamAction"]["refreshToken"]
    assert len(lines(feed.query(refreshToken=token))) == 9
    replace_newest_commit(feed)
    with pytest.raises(InvalidParameter, match=REWRITTEN):
        feed.query(refreshToken=token)


def test_next_page_of_a_rewritten_range_is_refused(feed: Feed) -> None:
    page = next_page(feed, lines(feed.answer(0, 1)))
    assert len(lines(feed.answer(0, 1, page))) == 5
    replace_newest_commit(feed)
    with pytest.raises(InvalidParameter, match=REWRITTEN):
        feed.answer(0, 1, page)


def test_rewritten_commit_after_the_version_is_allowed(feed: Feed) -> None:
    page = next_page(feed, lines(feed.answer(0, 0)))
    token = lines(feed.query(version=0, maxFiles=2))[-1]["endStreamAction"]["nextPageToken"]
    replace_newest_commit(feed)
    assert len(lines(feed.answer(0, 0, page))) == 4
    assert len(lines(feed.query(version=0, maxFiles=2, pageToken=token))) == 4
