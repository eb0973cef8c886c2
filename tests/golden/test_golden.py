"""The golden tables are whole, small, relocatable, and the log replay finds in each version as many rows as Spark."""

import json
import re
from pathlib import Path

import pytest
from delta_tables.folder_store import FolderStore
from deltaic.delta.features import LOG_ONLY, PREVIEWS, READABLE
from deltaic.delta.log import DeltaLog
from golden.build import BUILDERS
from golden.library import TABLES, Golden, load, names, place

SIX_MEGABYTES = 6_000_000


@pytest.fixture(params=names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return load(request.param)


def test_every_table_is_stored_and_catalogued() -> None:
    assert names() == sorted(BUILDERS)
    page = (TABLES.parents[1] / "README.md").read_text().partition("## Golden tables")[2]
    listed = re.findall(r"\w+", " ".join(re.findall(r"^\| [^|]+\| ([^|]+) \|$", page, re.MULTILINE)[1:]))
    assert {*listed} == {*BUILDERS}


def test_all_of_them_are_small() -> None:
    files = [file for file in TABLES.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < SIX_MEGABYTES
    assert not [file for file in files if file.name.startswith(".") and file.suffix == ".crc"]


def test_its_log_tells_nothing_of_where_it_was_built(golden: Golden) -> None:
    for file in (TABLES / golden.name).rglob("*.json"):
        assert b"/tmp/" not in file.read_bytes(), file


def test_every_readable_version_has_as_many_rows_as_spark_read(golden: Golden, tmp_path: Path) -> None:
    log = DeltaLog(FolderStore(place(golden, tmp_path)))
    for version in golden.versions:
        live = 0
        for batch in log.snapshot(version).files():
            for file in batch.to_pylist():
                live += json.loads(file["stats"])["numRecords"]
                live -= file["deletionVector"]["cardinality"] if file["deletionVector"] else 0
        assert live == golden.rows(version).num_rows, f"{golden.name} version {version}"


def test_every_feature_that_is_read_is_in_use_in_a_golden_table(tmp_path: Path) -> None:
    used: set[str] = set()
    for name in names():
        golden = load(name)
        snapshot = DeltaLog(FolderStore(place(golden, tmp_path / name))).snapshot(golden.versions[-1])
        used |= snapshot.live_features | LOG_ONLY & {*(snapshot.protocol.reader_features or ())}
    read = {PREVIEWS.get(feature, feature) for feature in READABLE}
    assert read - used == set(), "no golden table has it, or live_features of delta/features.py does not see it"


def test_a_change_feed_has_spark_s_columns_and_range(golden: Golden) -> None:
    if golden.change_range is None:
        assert not (TABLES / golden.name / "expected" / "changes.parquet").exists()
        return
    changes = golden.changes()
    assert {"_change_type", "_commit_version", "_commit_timestamp"} <= set(changes.column_names)
    found = set(changes["_commit_version"].to_pylist())
    assert found <= set(range(golden.change_range[0], golden.change_range[1] + 1))


def test_a_placed_table_s_commits_have_their_own_times(tmp_path: Path) -> None:
    log = place(load("plain"), tmp_path) / "_delta_log"
    for file in log.glob("*.json"):
        told = [json.loads(line) for line in file.read_text().split("\n") if "commitInfo" in line]
        assert file.stat().st_mtime_ns == told[0]["commitInfo"]["timestamp"] * 1_000_000


def test_a_clone_s_absolute_paths_are_put_right(tmp_path: Path) -> None:
    log = place(load("clone"), tmp_path, "s3://bucket/golden") / "_delta_log"
    adds = [
        json.loads(line)["add"]["path"] for line in (log / f"{0:020}.json").read_text().split("\n") if '"add"' in line
    ]
    assert len(adds) == 3
    assert all(path.startswith("s3://bucket/golden/clone/source/part=") for path in adds)
