"""Test that the golden tables are complete, small and relocatable."""

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


def test_every_table_is_stored_and_documented() -> None:
    assert names() == sorted(BUILDERS)
    page = (TABLES.parents[1] / "README.md").read_text().partition("## Golden tables")[2]
    names_in_readme = re.findall(r"\w+", " ".join(re.findall(r"^\| [^|]+\| ([^|]+) \|$", page, re.MULTILINE)[1:]))
    assert {*names_in_readme} == {*BUILDERS}


def test_all_tables_are_small() -> None:
    files = [file for file in TABLES.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < SIX_MEGABYTES
    assert not [file for file in files if file.name.startswith(".") and file.suffix == ".crc"]


def test_the_log_does_not_contain_its_build_path(golden: Golden) -> None:
    for file in (TABLES / golden.name).rglob("*.json"):
        assert b"/tmp/" not in file.read_bytes(), file


def test_every_version_has_the_number_of_rows_that_spark_read(golden: Golden, tmp_path: Path) -> None:
    log = DeltaLog(FolderStore(place(golden, tmp_path)))
    for version in golden.versions:
        live = 0
        for batch in log.snapshot(version).files():
            for file in batch.to_pylist():
                live += json.loads(file["stats"])["numRecords"]
                live -= file["deletionVector"]["cardinality"] if file["deletionVector"] else 0
        assert live == golden.rows(version).num_rows, f"{golden.name} version {version}"


def test_every_supported_feature_is_used_in_a_golden_table(tmp_path: Path) -> None:
    features_in_use: set[str] = set()
    for name in names():
        golden = load(name)
        snapshot = DeltaLog(FolderStore(place(golden, tmp_path / name))).snapshot(golden.versions[-1])
        features_in_use |= snapshot.live_features | LOG_ONLY & {*(snapshot.protocol.reader_features or ())}
    # Only Spark 4.2 and later write geometries; tests/contract/test_metadata.py has a commit of it.
    supported = {PREVIEWS.get(feature, feature) for feature in READABLE} - {"geospatial"}
    assert supported - features_in_use == set(), (
        "no golden table uses it, or live_features in delta/features.py does not detect it"
    )


def test_a_change_feed_has_spark_s_columns_and_range(golden: Golden) -> None:
    if golden.change_range is None:
        assert not (TABLES / golden.name / "expected" / "changes.parquet").exists()
        return
    changes = golden.changes()
    assert {"_change_type", "_commit_version", "_commit_timestamp"} <= set(changes.column_names)
    versions = set(changes["_commit_version"].to_pylist())
    assert versions <= set(range(golden.change_range[0], golden.change_range[1] + 1))


def test_the_commits_of_a_copy_have_their_original_times(tmp_path: Path) -> None:
    log = place(load("plain"), tmp_path) / "_delta_log"
    for file in log.glob("*.json"):
        infos = [json.loads(line) for line in file.read_text().split("\n") if "commitInfo" in line]
        assert file.stat().st_mtime_ns == infos[0]["commitInfo"]["timestamp"] * 1_000_000


def test_absolute_paths_of_a_clone_are_replaced(tmp_path: Path) -> None:
    log = place(load("clone"), tmp_path, "s3://bucket/golden") / "_delta_log"
    adds = [
        json.loads(line)["add"]["path"] for line in (log / f"{0:020}.json").read_text().split("\n") if '"add"' in line
    ]
    assert len(adds) == 3
    assert all(path.startswith("s3://bucket/golden/clone/source/part=") for path in adds)
