"""What an answer is said to take at the least it does take, whatever its files look like; and not ten times as much."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove
from deltaic.http.compression import gzip_chunks
from deltaic.sharing.page_budget import PageBudget
from deltaic.sharing.weight import weight_of
from sharing.means import ALL, Feed, shared_table

FILES = 800
COLUMNS = [f"column_{number}" for number in range(8)]
random = Random(11)  # noqa: S311 -- the same at every run


def uuids(_: int) -> str:
    return f"p=a/part-00000-{UUID(bytes=random.randbytes(16))}.c000.snappy.parquet"


def numbered(number: int) -> str:
    return f"{number:07d}"


def of(value: Callable[[int], object]) -> Callable[[int], str]:
    """Return what makes the statistics of a file whose columns have such values."""

    def statistics(number: int) -> str:
        low, high = ({column: value(number) for column in COLUMNS} for _ in range(2))
        found = {"numRecords": 100, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(COLUMNS, 0)}
        return json.dumps(found, separators=(",", ":"))

    return statistics


STATISTICS: dict[str, Callable[[int], str | None]] = {
    "none": lambda _: None,
    "the same for all": of(lambda _: 7),
    "in order": of(lambda number: number * 1000),
    "doubles": of(lambda _: random.random()),
    "longs": of(lambda _: random.getrandbits(60)),
    "digests": of(lambda _: random.randbytes(16).hex()),
    "words": of(lambda _: random.choice(["north", "south", "east", "west"])),
}


def packed(chunks: list[bytes]) -> int:
    return sum(map(len, gzip_chunks(chunks, lambda _: b"", PageBudget())))


def table(
    root: Path, path: Callable[[int], str], statistics: Callable[[int], str | None], **options: Any
) -> HandmadeLog:
    log = HandmadeLog(root)
    log.commit(protocol(), metadata({"delta.enableChangeDataFeed": "true"}))
    log.commit(*(add(path(number), stats=statistics(number)) for number in range(FILES)))
    log.classic(1, row_group=FILES, **options)
    return log


@pytest.mark.parametrize("path", [uuids, numbered])
@pytest.mark.parametrize("statistics", STATISTICS.values(), ids=STATISTICS)
def test_files_take_what_they_are_said_to_take(
    tmp_path: Path, path: Callable[[int], str], statistics: Callable[[int], str | None]
) -> None:
    table(tmp_path, path, statistics)
    feed = Feed(tmp_path)
    urls = feed.sharing.urls(shared_table())
    told = weight_of(FILES, urls, feed.log.snapshot().packed_bytes())
    for capabilities in (None, ALL.replace("parquet,", "")):
        feed.capabilities = capabilities
        chunks = list(feed.query().chunks)
        assert 0.35 * packed(chunks) < told.gzipped < packed(chunks)
        assert told.plain < sum(map(len, chunks))


def test_a_range_takes_what_it_is_said_to_take(tmp_path: Path) -> None:
    table(tmp_path, numbered, STATISTICS["none"])
    answer = Feed(tmp_path).answer(0, 1)
    told = answer.weight()
    assert told == weight_of(FILES, Feed(tmp_path).sharing.urls(shared_table()))
    chunks = list(answer.chunks)
    assert 0.35 * packed(chunks) < told.gzipped < packed(chunks)
    assert told.plain < sum(map(len, chunks))


def test_of_a_page_no_more_counts_than_the_page(tmp_path: Path) -> None:
    table(tmp_path, numbered, STATISTICS["doubles"])
    feed = Feed(tmp_path, max_files=10)
    ten = weight_of(10, feed.sharing.urls(shared_table()))
    assert feed.answer(0, 1).weight() == ten
    assert feed.query(maxFiles=10).weight() == ten


@pytest.mark.parametrize("body", [{"limitHint": 10**6}, {"predicateHints": ["x >= 0"]}], ids=["limit", "filter"])
def test_nothing_is_said_of_what_nobody_has_counted(tmp_path: Path, body: dict[str, Any]) -> None:
    table(tmp_path, numbered, STATISTICS["doubles"])
    assert Feed(tmp_path).query(**body).weight() == (0, 0)


def test_of_files_that_are_gone_nothing_is_counted(tmp_path: Path) -> None:
    log = table(tmp_path, uuids, STATISTICS["digests"])
    before = Feed(tmp_path).log.snapshot().packed_bytes()
    log.commit(*(remove(path) for path, _ in list(log.state().files)[200:]))
    assert Feed(tmp_path).log.snapshot().packed_bytes() == pytest.approx(before / 4, rel=0.01)


def test_what_nobody_has_compressed_says_nothing_of_gzip(tmp_path: Path) -> None:
    table(tmp_path, uuids, STATISTICS["words"], compression="none")
    assert Feed(tmp_path).log.snapshot().packed_bytes() == 0


def test_it_costs_no_request_that_the_answer_does_not_make(tmp_path: Path) -> None:
    """The checkpoint is in parts of which only the first one's footer is read before the first line."""
    log = table(tmp_path, uuids, STATISTICS["words"])
    log.clear_checkpoints()
    log.multipart(1, 4, row_group=FILES)
    log.checksum(1)
    feed, other = Feed(tmp_path), Feed(tmp_path)
    sum(map(len, other.query().chunks))
    answer = feed.query()
    assert feed.log.snapshot().packed_bytes() > 0
    sum(map(len, answer.chunks))
    read = [[call for call in one.store.calls if not call.startswith("list")] for one in (feed, other)]
    assert sorted(read[0]) == sorted(read[1])
