"""Every table that Spark wrote is pulled as Spark read it: each version, as Parquet, CSV and a Delta table."""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from client.golden_shares import UNREADABLE, Shared
from client.naive_log import replay
from golden.library import names
from pull.rows import difference, rows_of, rows_of_csv, rows_of_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Deltaic

QUICK = ("all_types", "everything", "partitioned_types")


def marked() -> list[Any]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names()]


def readable(table: Shared, version: int) -> bool:
    known = UNREADABLE.get((table.golden.name, "delta"))
    return known is None or version < known.since


@pytest.mark.parametrize("name", marked())
def test_a_file_has_the_rows_that_spark_read(
    deltaic: Deltaic, tmp_path: Path, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    for version in table.golden.versions:
        expected = table.rows(version)
        wanted = rows_of(expected, expected.schema)
        if not readable(table, version):
            refused = deltaic(f"pull {table.url} out.parquet --version {version}")
            assert refused.exit_code == 1
            assert "refused: " in refused.stderr
            continue
        told = deltaic.json(f"pull {table.url} out.parquet --version {version}")
        assert (told["version"], told["rows"]) == (version, expected.num_rows)
        found = rows_of(pq.read_table(tmp_path / "out.parquet"), expected.schema)
        assert found == wanted, difference(found, wanted)
        if version != table.golden.versions[-1]:
            continue
        if name == "variant":
            assert "is a variant, which CSV cannot hold" in deltaic(f"pull {table.url} out.csv").output
        else:
            deltaic.done(f"pull {table.url} out.csv")
            found = rows_of_csv(tmp_path / "out.csv", expected.schema)
            assert found == wanted, difference(found, wanted)


@pytest.mark.parametrize("name", marked())
def test_a_folder_goes_through_all_versions(
    deltaic: Deltaic, tmp_path: Path, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    copy = tmp_path / "copy"
    back = [] if name == "type_widening" else table.golden.versions[:1]  # that one is refused, by the next test
    for version in (*table.golden.versions, *back):
        deltaic.done(f"pull {table.url} copy/ --version {version}")
        latest = max(int(file.stem) for file in (copy / "_delta_log").glob("*.json"))
        assert content(copy, latest) == content(table.folder, version)
        if readable(table, version):
            expected = table.rows(version)
            wanted, found = rows_of(expected, expected.schema), rows_of(rows_of_folder(copy), expected.schema)
            assert found == wanted, difference(found, wanted)
    assert not deltaic.json(f"pull {table.url} copy/ --version {version}")["changed"]


def test_a_folder_does_not_go_back_behind_a_widened_type(deltaic: Deltaic, shared: Callable[[str], Shared]) -> None:
    table = shared("type_widening")
    first, last = table.golden.versions[0], table.golden.versions[-1]
    deltaic.done(f"pull {table.url} copy/ --version {last}")
    refused = deltaic(f"pull {table.url} copy/ --version {first}")
    assert refused.exit_code == 1
    told = " ".join(refused.stderr.split())
    assert f"in which arr.element is integer, and cannot go back to version {first}" in told
    assert "where it was short: name a new folder" in told
    deltaic.done(f"pull {table.url} other/ --version {first}")
    assert not deltaic.json(f"pull {table.url} copy/ --version {last}")["changed"]


def test_a_refused_pull_leaves_no_thread_to_the_garbage_collector(
    deltaic: Deltaic, shared: Callable[[str], Shared]
) -> None:
    table = shared("type_widening")  # whose rows, and not its metadata, cannot be read
    before = set(threading.enumerate())
    gc.disable()
    try:
        assert "refused: " in deltaic(f"pull {table.url} out.parquet").stderr
        assert set(threading.enumerate()) <= before
    finally:
        gc.enable()


def content(folder: Path, version: int) -> Counter[str]:
    """Return what tells the files of a version apart: size, partition, how many rows are deleted."""
    adds = replay(folder / "_delta_log", version).adds.values()
    told = [(add["size"], add["partitionValues"], add.get("deletionVector", {}).get("cardinality")) for add in adds]
    return Counter(json.dumps(each, sort_keys=True) for each in told)
