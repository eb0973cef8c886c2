"""Test that Parquet files are read with few ranges, and large row groups in pieces."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.scan.parquet_file import Cursor, ParquetFile, find


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file with one row group, a large column and a small one."""
    root = tmp_path_factory.mktemp("parquet")
    rows = 60_000
    texts = [f"{n:06d}" * 40 for n in range(rows)]
    table = pa.table({"large": texts, "small": [n % 7 for n in range(rows)]})
    pq.write_table(table, root / "f.parquet", row_group_size=rows, compression="none", use_dictionary=["small"])
    return root


def read(file: ParquetFile, *, buffered: bool) -> list[str]:
    leaves = file.leaves("large", "small")
    blocks = file.fetch(file.ranges([0], leaves, with_large=not buffered))
    batches = list(Cursor(file, blocks, buffered=buffered).batches(0, leaves, 5000))
    assert [value for batch in batches for value in batch["small"].to_pylist()] == [n % 7 for n in range(60_000)]
    return [value for batch in batches for value in batch["large"].to_pylist()]


@pytest.mark.parametrize(("buffered", "requests"), [(False, 2), (True, 5)], ids=["whole", "in_pieces"])
def test_a_row_group_is_read_at_once_or_in_pieces(large: Path, buffered: bool, requests: int) -> None:
    store = FolderStore(large)
    file = ParquetFile(store, "f.parquet", None, 64 << 10)
    assert read(file, buffered=buffered) == [f"{n:06d}" * 40 for n in range(60_000)]
    assert len(store.calls) == requests


def test_a_small_file_is_one_request(tmp_path: Path) -> None:
    pq.write_table(pa.table({"small": [1, 2]}), tmp_path / "f.parquet")
    store = FolderStore(tmp_path)
    file = ParquetFile(store, "f.parquet", (tmp_path / "f.parquet").stat().st_size, 4096)
    blocks = file.fetch(file.ranges([0], [0]))
    assert [batch.num_rows for batch in Cursor(file, blocks).batches(0, [0], 10)] == [2]
    assert store.calls == ["get f.parquet"]


def test_a_footer_larger_than_expected_is_read(tmp_path: Path) -> None:
    wide = pa.table({f"column_{n}": [n] for n in range(300)})
    pq.write_table(wide, tmp_path / "f.parquet")
    file = ParquetFile(FolderStore(tmp_path), "f.parquet", None, 100)
    assert file.schema.names == wide.schema.names


def test_bytes_are_found_only_within_one_block() -> None:
    blocks = [(10, memoryview(b"abcdef")), (16, memoryview(b"ghi"))]
    assert bytes(find(blocks, 12, 15) or b"") == b"cde"
    assert bytes(find(blocks, 16, 19) or b"") == b"ghi"
    assert find(blocks, 14, 18) is None
    assert find(blocks, 9, 11) is None
