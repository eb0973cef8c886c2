"""What a token pins stays pinned: the table that it was made for, and the format of the first page."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol
from deltaic.errors import InvalidParameter, UnsupportedOperation
from sharing.means import Feed, lines, opened

ON = {"delta.enableChangeDataFeed": "true"}


def named(action: Action, **changed: Any) -> Action:
    return {kind: content | changed for kind, content in action.items()}


def write(root: Path, table_id: str) -> None:
    """Write three versions with a file each, from the second on."""
    shutil.rmtree(root / "_delta_log", ignore_errors=True)
    log = HandmadeLog(root)
    log.commit(protocol(), named(metadata(ON), id=table_id))
    log.commit(add(f"{table_id}1"))
    log.commit(add(f"{table_id}2"))


def end(feed: Feed, **body: Any) -> dict[str, str]:
    found: dict[str, str] = lines(feed.query(**body))[-1]["endStreamAction"]
    return found


def test_tokens_end_with_the_table_that_they_were_made_for(tmp_path: Path) -> None:
    write(tmp_path, "old")
    feed = Feed(tmp_path, max_files=1)
    page = end(feed, maxFiles=1)["nextPageToken"]
    refresh = end(feed, includeRefreshToken=True)["refreshToken"]
    changes = opened(feed, lines(feed.answer(0, 2)))
    assert feed.query(maxFiles=1, pageToken=page).version == feed.query(refreshToken=refresh).version == 2
    assert feed.answer(0, 2, changes).version == 0
    write(tmp_path, "new")
    for body in ({"maxFiles": 1, "pageToken": page}, {"refreshToken": refresh}):
        with pytest.raises(InvalidParameter, match="Please restart the query"):
            feed.query(**body)
    with pytest.raises(InvalidParameter, match="Please restart the query"):
        feed.answer(0, 2, changes)


def test_a_later_page_of_a_snapshot_has_the_format_of_the_first(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    fields = [{"name": "t", "type": "timestamp_ntz", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    log.commit(protocol(3, 7, "timestampNtz"), named(metadata(), schemaString=schema))
    log.commit(add("a"), add("b"))
    feed = Feed(tmp_path, "responseformat=parquet,delta;readerfeatures=timestampntz")
    first = feed.query(maxFiles=1)
    token = lines(first)[-1]["endStreamAction"]["nextPageToken"]
    assert feed.query(maxFiles=1, pageToken=token).response_format == first.response_format == "delta"
    feed.capabilities = "responseformat=parquet,delta"
    with pytest.raises(UnsupportedOperation, match="timestampNtz"):
        feed.query(maxFiles=1, pageToken=token)
