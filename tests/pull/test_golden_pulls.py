"""Downloads of every golden table have the rows that Spark read: each version, as Parquet, CSV and Delta."""

from __future__ import annotations

import gc
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from client.golden_shares import CLIENT_ERRORS, Shared
from client.naive_log import replay
from golden.library import names
from pull.rows import difference, rows_of, rows_of_csv, rows_of_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Deltaic

pytestmark = pytest.mark.slow

OLDER = ("all_types", "everything", "partitioned_types", "column_mapping_later", "type_widening")
"""Tables of which CI downloads each version as a file. The next test downloads all versions of all tables as Delta."""


def readable(table: Shared, version: int) -> bool:
    limit = CLIENT_ERRORS.get((table.golden.name, "delta"))
    return limit is None or version < limit.since


def check_file(deltaic: Deltaic, folder: Path, table: Shared, version: int) -> None:
    """Download a version as Parquet, and compare its rows with those that Spark read."""
    spark_rows = table.rows(version)
    if not readable(table, version):
        refused = deltaic(f"pull {table.url} out.parquet --version {version}")
        assert refused.exit_code == 1
        assert "refused: " in refused.stderr
        return
    result = deltaic.json(f"pull {table.url} out.parquet --version {version}")
    assert (result["version"], result["rows"]) == (version, spark_rows.num_rows)
    expected = rows_of(spark_rows, spark_rows.schema)
    actual = rows_of(pq.read_table(folder / "out.parquet"), spark_rows.schema)
    assert actual == expected, difference(actual, expected)


@pytest.mark.parametrize("name", names())
def test_file_has_the_rows_that_spark_read(
    deltaic: Deltaic, tmp_path: Path, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    latest = table.golden.versions[-1]
    check_file(deltaic, tmp_path, table, latest)
    if name == "variant":
        assert "of type variant: select other columns" in deltaic(f"pull {table.url} out.csv").output
    elif readable(table, latest):
        deltaic.done(f"pull {table.url} out.csv")
        spark_rows = table.rows(latest)
        expected = rows_of(spark_rows, spark_rows.schema)
        actual = rows_of_csv(tmp_path / "out.csv", spark_rows.schema)
        assert actual == expected, difference(actual, expected)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OLDER else pytest.mark.long) for name in names()]
)
def test_file_of_an_older_version_has_the_rows_that_spark_read(
    deltaic: Deltaic, tmp_path: Path, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    for version in table.golden.versions[:-1]:
        check_file(deltaic, tmp_path, table, version)


@pytest.mark.parametrize("name", names())
def test_delta_copy_goes_through_all_versions(
    deltaic: Deltaic, tmp_path: Path, shared: Callable[[str], Shared], name: str
) -> None:
    table = shared(name)
    copy = tmp_path / "copy"
    back = [] if name == "type_widening" else table.golden.versions[:1]  # the next test covers this one
    for version in (*table.golden.versions, *back):
        deltaic.done(f"pull {table.url} copy/ --version {version}")
        latest = max(int(file.stem) for file in (copy / "_delta_log").glob("*.json"))
        assert content(copy, latest) == content(table.folder, version)
        if readable(table, version):
            spark_rows = table.rows(version)
            expected = rows_of(spark_rows, spark_rows.schema)
            actual = rows_of(rows_of_folder(copy), spark_rows.schema)
            assert actual == expected, difference(actual, expected)
    assert not deltaic.json(f"pull {table.url} copy/ --version {version}")["changed"]


def test_delta_copy_does_not_return_to_a_version_before_type_widening(
    deltaic: Deltaic, shared: Callable[[str], Shared]
) -> None:
    table = shared("type_widening")
    first, last = table.golden.versions[0], table.golden.versions[-1]
    deltaic.done(f"pull {table.url} copy/ --version {last}")
    refused = deltaic(f"pull {table.url} copy/ --version {first}")
    assert refused.exit_code == 1
    message = " ".join(refused.stderr.split())
    assert f"in which arr.element is integer, and cannot return to version {first}" in message
    assert "in which it is short: use a new folder" in message
    deltaic.done(f"pull {table.url} other/ --version {first}")
    assert not deltaic.json(f"pull {table.url} copy/ --version {last}")["changed"]


def test_failed_download_ends_its_threads(deltaic: Deltaic, shared: Callable[[str], Shared]) -> None:
    table = shared("type_widening")  # its metadata can be read, but not its rows
    before = set(threading.enumerate())
    gc.disable()
    try:
        assert "refused: " in deltaic(f"pull {table.url} out.parquet").stderr
        assert set(threading.enumerate()) <= before
    finally:
        gc.enable()


def content(folder: Path, version: int) -> Counter[str]:
    """Return the files of a version by size, partition and number of deleted rows."""
    adds = replay(folder / "_delta_log", version).adds.values()
    files = [(add["size"], add["partitionValues"], add.get("deletionVector", {}).get("cardinality")) for add in adds]
    return Counter(json.dumps(file, sort_keys=True) for file in files)
