"""Test that Delta clients read the rows of every snapshot of tables that Spark wrote as Iceberg."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltaic.delta.actions import Add, AddCdcFile, Remove
from deltaic.delta.commit_changes import FileChange
from deltaic.delta.features import DELETION_VECTORS
from deltaic.errors import UnsupportedOperation
from deltaic.iceberg_source.source_log import IcebergLog
from golden.workbench import as_arrow
from iceberg.spark_with_iceberg import RUNTIME, spark_with
from iceberg_source.folder_catalog import client_rows, open_source, sorted_rows, without_zone
from iceberg_source.spark_tables import TABLES, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# pyspark leaves sockets open.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

UNEQUAL = {"maintained_v2", "dropped_files_with_deletes_v2"}
"""Tables with deletes, which the format versions write in different ways."""


def parameter(name: str) -> object:
    """Return a table as a parameter; it is long if its twin in format version 3 shows the same."""
    is_shown = name not in UNEQUAL and name.endswith("_v2") and name.replace("_v2", "_v3") in TABLES
    return pytest.param(name, marks=pytest.mark.long if is_shown else ())


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(warehouse: Path) -> Iterator["SparkSession"]:
    with spark_with(RUNTIME) as session:
        session.conf.set("spark.sql.catalog.local", "org.apache.iceberg.spark.SparkCatalog")
        session.conf.set("spark.sql.catalog.local.type", "hadoop")
        session.conf.set("spark.sql.catalog.local.warehouse", f"file://{warehouse}")
        yield session


@pytest.mark.parametrize("name", [*map(parameter, TABLES)])
def test_clients_read_the_rows_of_spark(spark: "SparkSession", warehouse: Path, name: str) -> None:
    write_table(spark, f"local.main.{name}", TABLES[name])
    location = (warehouse / "main" / name).as_uri()
    hint = (warehouse / "main" / name / "metadata/version-hint.text").read_text(encoding="utf-8")
    log = open_source(location, f"{location}/metadata/v{hint}.metadata.json")
    if log.metadata.versions.get(0, log.metadata.current) is None:  # before the first snapshot
        assert client_rows(log.snapshot(0), location).num_rows == 0
    for snapshot in filter(None, log.metadata.versions.values()):
        is_latest = snapshot is log.metadata.current
        source = spark.read if is_latest else spark.read.option("versionAsOf", snapshot.snapshot_id)
        expected = as_arrow(source.table(f"local.main.{name}"))
        rows = client_rows(log.snapshot(snapshot.sequence_number), location)
        assert rows.column_names == expected.column_names
        assert sorted_rows(rows, without_zone) == sorted_rows(expected, without_zone)
        _check_changes(log, snapshot.sequence_number)


def _check_changes(log: IcebergLog, version: int) -> None:
    """Assert that the changes of a version lead from the earlier files to its files, or that it rewrites rows."""
    previous = log.previous(version)
    if previous is None:  # the earlier versions expired
        return
    before, after = (
        {row["path"]: row["deletionVector"] for batch in snapshot.scan() for row in batch.files.to_pylist()}
        for snapshot in (previous, log.snapshot(version))
    )
    is_rewritten = (before.keys() - after.keys() and after.keys() - before.keys()) or any(
        before[path] != after[path] for path in before.keys() & after.keys()
    )
    try:
        [commit] = log.commits(version, version)
    except UnsupportedOperation as refused:
        other = ("partition columns", "follows a rollback")
        assert is_rewritten or any(reason in refused.message for reason in other)  # noqa: PT017 -- all are right
        return
    changes = [change for change in commit.data() if isinstance(change, FileChange)]
    entry = log.metadata.versions[version]
    if entry is not None and entry.summary["operation"] == "replace":  # a compaction
        assert not changes
        return
    assert not is_rewritten
    added, removed = ({action.path for action in changes if isinstance(action, kind)} for kind in (Add, Remove))
    assert added == after.keys() - before.keys()
    assert removed == before.keys() - after.keys()
    for action in changes:
        assert not isinstance(action, AddCdcFile)
        vector = after[action.path] if isinstance(action, Add) else before[action.path]
        assert (action.deletion_vector and action.deletion_vector.row) == vector
        assert not vector or DELETION_VECTORS in (log.snapshot().protocol.reader_features or ())
