"""Tokens are valid only for their table and the format of the first page."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, vector
from deltaic.errors import InvalidParameter, UnsupportedOperation
from sharing.means import Feed, lines, next_page

ON = {"delta.enableChangeDataFeed": "true"}


def with_fields(action: Action, **changed: Any) -> Action:
    return {kind: content | changed for kind, content in action.items()}


def write(root: Path, table_id: str, modified: int) -> None:
    """Write three versions, the last two with a file each, with the same modification time in ms."""
    shutil.rmtree(root / "_delta_log", ignore_errors=True)
    log = HandmadeLog(root)
    log.commit(protocol(), with_fields(metadata(ON), id=table_id), modified=modified)
    log.commit(add(f"{table_id}1"), modified=modified)
    log.commit(add(f"{table_id}2"), modified=modified)


def end(feed: Feed, **body: Any) -> dict[str, str]:
    end_action: dict[str, str] = lines(feed.query(**body))[-1]["endStreamAction"]
    return end_action


def test_tokens_of_a_replaced_table_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "old", 1_700_000_000_000)
    feed = Feed(tmp_path, max_files=1)
    page = end(feed, maxFiles=1)["nextPageToken"]
    refresh = end(feed, includeRefreshToken=True)["refreshToken"]
    changes = next_page(feed, lines(feed.answer(0, 2)))
    assert feed.query(maxFiles=1, pageToken=page).version == feed.query(refreshToken=refresh).version == 2
    assert feed.answer(0, 2, changes).version == 0
    # The commits are as long as the old ones: here only their times differ, on S3 their ETags, too.
    write(tmp_path, "new", 1_700_000_000_001)
    for body in ({"maxFiles": 1, "pageToken": page}, {"refreshToken": refresh}):
        with pytest.raises(InvalidParameter, match="Please restart the query"):
            feed.query(**body)
    with pytest.raises(InvalidParameter, match="Please restart the query"):
        feed.answer(0, 2, changes)


def test_a_later_page_has_the_format_of_the_first(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON | {"delta.enableDeletionVectors": "true"}))
    log.commit(add("a"), add("b"))
    log.commit(add("a", vector=vector("ab^-aqEH.-t@S}K{vb[*k^")))
    feed = Feed(tmp_path, "responseformat=parquet,delta;readerfeatures=deletionvectors", max_files=1)
    first, changes = feed.query(maxFiles=1), lines(feed.answer(0, 2))
    token = lines(first)[-1]["endStreamAction"]["nextPageToken"]
    # The requested formats must stay the same, but the reader features apply only to the first page.
    feed.capabilities = "responseformat=parquet,delta"
    assert feed.query(maxFiles=1, pageToken=token).response_format == first.response_format == "delta"
    assert feed.answer(0, 2, next_page(feed, changes)).response_format == "delta"
    with pytest.raises(UnsupportedOperation, match="deletionVectors"):
        feed.query(maxFiles=1)
