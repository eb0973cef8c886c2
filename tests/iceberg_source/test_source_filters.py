"""Test that random predicates never lose a row of an Iceberg table: brute force over the rows of its files decides."""

from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltaic.delta.file_filter import FileFilter
from deltaic.iceberg_source.source_snapshot import IcebergSnapshot
from deltaic.pruning import file_filter, parse_hints
from deltaic.pruning.expressions import Expression
from hypothesis import HealthCheck, given, settings
from iceberg_source.folder_catalog import FolderCatalog, source_of
from laws import tries
from pruning.test_rows import ALL_TYPES, ARROW, POOLS, DataFile, matching, predicates, replace_unknown
from pyiceberg.transforms import IdentityTransform
from row_oracle import as_json, as_sql

NAMES: Final = ("i", "l", "f", "d", "dec", "wide", "s", "u", "b", "day", "ts", "ntz")
NESTED: Final = ("n.l", "n.s")
SCHEMA: Final = pa.schema([
    *((name, ARROW[ALL_TYPES[name]]) for name in NAMES),
    ("n", pa.struct([(name[2:], ARROW[ALL_TYPES[name]]) for name in NESTED])),
])  # fmt: skip
pytestmark = pytest.mark.slow

TYPES: Final = {name: ALL_TYPES[name] for name in (*NAMES, *NESTED)}


def _rows(random: Random, count: int) -> pa.Table:
    def value(name: str) -> Any:
        pool = POOLS["u" if name == "u" else ALL_TYPES[name]]
        return None if random.random() < 0.1 else random.choice(pool)

    rows = []
    for _ in range(count):
        inner = None if random.random() < 0.1 else {name[2:]: value(name) for name in NESTED}
        rows.append({**{name: value(name) for name in NAMES}, "n": inner})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


Source = tuple[IcebergSnapshot, dict[str, DataFile]]


@pytest.fixture(scope="module", params=[("i", "day"), ("b", "dec"), ()], ids=["numbers", "decimals", "evolved"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """Return a partitioned table, or one whose first files are not partitioned, and the rows of its files by path."""
    random, folder = Random(7), tmp_path_factory.mktemp("filters")  # noqa: S311 -- rows of a test
    table = FolderCatalog(folder).create_table("table", SCHEMA)
    if not request.param:
        for _ in range(8):
            table.append(_rows(random, random.choice([1, 2, 5])))
    with table.update_spec() as update:
        for name in request.param or ("i", "s"):
            update.add_field(name, IdentityTransform(), f"by_{name}")
    table.append(_rows(random, 25))
    table.append(_rows(random, 10))
    snapshot = source_of(table).snapshot()
    assert snapshot.metadata.partition_columns == [*request.param]
    root = Path(table.metadata.location.removeprefix("file://"))
    files = {}
    for path in _paths(snapshot):
        rows = pq.ParquetFile(root / unquote(path)).read().to_pylist()
        files[path] = DataFile([], rows, {}, [{}])
    return snapshot, files


def _paths(snapshot: IcebergSnapshot, kept: FileFilter | None = None) -> list[str]:
    return [path for batch in snapshot.scan(kept) for path in batch.files["path"].to_pylist()]


def test_no_file_with_a_matching_row_is_dropped(source: Source) -> None:
    snapshot, files = source
    dropped: list[int] = []

    @given(predicate=predicates([*TYPES], 4))
    @settings(max_examples=tries(350), deadline=None, suppress_health_check=list(HealthCheck))
    def check(predicate: Expression) -> None:
        matches = {path for path, file in files.items() if matching(replace_unknown(predicate), file)}
        for hints in (parse_hints([as_sql(predicate)], None), parse_hints([], as_json(predicate, TYPES))):
            kept = set(_paths(snapshot, file_filter(hints, snapshot.metadata)))
            assert matches <= kept, as_sql(predicate)
            dropped.append(len(files) - len(kept))

    check()
    assert any(dropped)
