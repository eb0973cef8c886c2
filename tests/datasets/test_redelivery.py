"""Test that a repeated delivery is not read, if that cannot change the table."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.delivery import delivery_of
from deltaic_datasets.run.run_state import RunSummary
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_terminal.progress import Progress, Step, silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

MERGE = {"mode": "merge", "keys": ["id"]}
SCD2 = {"mode": "scd2", "keys": ["id"], "at": "at"}
ASIDE = [{"expect": "range", "column": "id", "max": 8, "action": "quarantine"}]


class Deliveries:
    """A folder of files that is delivered to a table repeatedly."""

    def __init__(self, spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
        self.spark, self._catalog, self.place = spark, catalog, place
        self._number = 0

    def deliver(self, ids: list[int]) -> None:
        rows = [{"id": key, "at": f"2026-03-0{key % 9 + 1}T00:00:00Z"} for key in ids]
        self._source = json_source(self.place.folder, "s", rows, "id INT, at TIMESTAMP")

    def content(self, **parts: Any) -> dict[str, Any]:
        return dataset(self.place.location, **{"sources": {"s": self._source}, "write": MERGE, **parts})

    def run(self, progress: Progress = silent, **parts: Any) -> RunSummary:
        self._number += 1
        return build(self.spark, run_of(self.content(**parts), f"run{self._number}"), self._catalog, progress)

    def digest(self, **parts: Any) -> str:
        return delivery_of(self.spark, run_of(self.content(**parts)))

    def touched(self) -> None:
        """Change the file's time, as a provider does by writing it again."""
        os.utime(self._source["paths"][0], ns=(1, 1))

    def sql(self, statement: str) -> None:
        self.spark.sql(statement.replace("{table}", f"delta.`{self.place.spark_location}`"))


@pytest.fixture
def deliveries(spark: "SparkSession", catalog: JobCatalog, place: Place) -> Deliveries:
    deliveries = Deliveries(spark.newSession(), catalog, place)
    deliveries.deliver([1, 2, 9])
    return deliveries


# In CI: the next test, test_missing_quarantine_is_written_by_the_next_run and
# test_repeated_rows_make_no_version_and_are_counted.
@pytest.mark.long
@pytest.mark.parametrize("write", [MERGE, SCD2], ids=["merge", "scd2"])
def test_same_files_are_not_read_again(deliveries: Deliveries, write: dict[str, Any]) -> None:
    more: dict[str, Any] = {"write": write, "expectations": ASIDE, "target": {"comment": "a version of its own"}}
    first = deliveries.run(**more)
    assert (first.redelivered, first.written, first.quarantined) == (False, 2, 1)
    again = deliveries.run(**more)
    assert (again.redelivered, again.committed, again.repeated, again.rows) == (True, False, False, 0)
    deliveries.touched()
    same_rows = deliveries.run(**more)
    assert (same_rows.redelivered, same_rows.committed, same_rows.unchanged) == (False, False, 2)


def test_table_with_other_rows_is_written_again(deliveries: Deliveries) -> None:
    deliveries.run()
    deliveries.sql("OPTIMIZE {table}")
    assert deliveries.run().redelivered
    deliveries.sql("UPDATE {table} SET at = NULL")
    assert (deliveries.run().committed, deliveries.run().redelivered) == (True, True)


@pytest.mark.long  # in CI: test_table_with_other_rows_is_written_again
def test_table_with_any_other_commit_is_written_again(deliveries: Deliveries) -> None:
    deliveries.run()
    deliveries.sql("ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
    assert deliveries.run().redelivered
    deliveries.sql("DELETE FROM {table}")
    assert (deliveries.run().committed, deliveries.run().redelivered) == (True, True)
    deliveries.sql("INSERT INTO {table} VALUES (7, NULL)")
    assert not deliveries.run().redelivered
    deliveries.sql("RESTORE TABLE {table} TO VERSION AS OF 0")
    assert not deliveries.run().redelivered
    deliveries.sql("ALTER TABLE {table} ADD COLUMNS (more INT)")
    assert not deliveries.run(target={"evolve_schema": True}).redelivered


@pytest.mark.long  # in CI: test_digest_depends_on_every_part_of_a_delivery
def test_other_dataset_or_definition_reads_the_files(deliveries: Deliveries) -> None:
    deliveries.run()
    assert not deliveries.run(name="other").redelivered
    assert not deliveries.run(steps=[{"view": "t", "sql": "SELECT id + 1 AS id, at FROM s"}]).redelivered


def test_missing_quarantine_is_written_by_the_next_run(deliveries: Deliveries, s3: "S3Client") -> None:
    assert deliveries.run(expectations=ASIDE).quarantined == 1
    assert deliveries.run(expectations=ASIDE).redelivered
    log = f"{deliveries.place.prefix}_quarantine/_delta_log/"
    for item in s3.list_objects_v2(Bucket=BUCKET, Prefix=log)["Contents"]:  # as if the run had died before this step
        s3.delete_object(Bucket=BUCKET, Key=item["Key"])
    assert deliveries.run(expectations=ASIDE).quarantined == 1


@pytest.mark.parametrize(
    "parts",
    [
        {"write": {"mode": "append"}},
        {"write": {"mode": "overwrite"}},
        {"steps": [{"view": "t", "sql": "SELECT id, Current_Timestamp AS at FROM s"}]},
        {"steps": [{"view": "t", "sql": "SELECT id, timestamp'now' AS at FROM s"}]},
        {"steps": [{"view": "t", "sql": "SELECT id, at FROM s WHERE rand() < 0.5"}]},
        {"write": {**MERGE, "delete_when": "at < now( )"}},
        {"expectations": [{"expect": "sql", "condition": "at > current_date - 3"}]},
        {"expectations": [{"expect": "freshness", "column": "at", "within": "9000 days"}]},
        {"sources": {"s": {"format": "json", "paths": ["http://elsewhere/a.json"], "schema": "id INT"}}},
    ],
    ids=str,
)
def test_nondeterministic_dataset_is_read_again(deliveries: Deliveries, parts: dict[str, Any]) -> None:
    assert not deliveries.digest(**parts)


def test_digest_depends_on_every_part_of_a_delivery(deliveries: Deliveries, spark: "SparkSession") -> None:
    deliveries.deliver([1])
    table = {"format": "delta", "path": str(deliveries.place.folder / "t")}
    spark.range(1).write.format("delta").save(table["path"])

    def digests() -> list[str]:
        both = {"steps": [{"view": "v", "sql": "SELECT s.* FROM s JOIN t USING (id)"}]}
        return [
            deliveries.digest(),
            deliveries.digest(target={"comment": "c"}),
            deliveries.digest(sources={"s": deliveries.content()["sources"]["s"], "t": table}, **both),
        ]

    before = digests()
    assert all(before)
    assert digests() == before
    step = {"view": "v", "sql": "SELECT id + 1 AS id, at FROM s"}
    assert len({*before, deliveries.digest(name="other"), deliveries.digest(steps=[step])}) == 5
    spark.range(1).write.format("delta").mode("append").save(table["path"])
    assert [old == new for old, new in zip(before, digests(), strict=True)] == [True, True, False]
    deliveries.touched()
    assert set(before) & set(digests()) == set()


def test_files_that_change_during_a_run_are_read_again(deliveries: Deliveries) -> None:
    def upload(now: Step) -> None:
        if now.text.startswith("Reading"):
            deliveries.touched()

    deliveries.run(progress=upload)
    assert not deliveries.run().redelivered


def test_all_files_of_a_path_are_listed(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    for name in ("day/1.csv", "day1.csv", "day2.csv", "other.csv"):
        (tmp_path / name).write_text(name)
    (tmp_path / "linked").symlink_to(tmp_path / "day", target_is_directory=True)

    def list_files(path: str) -> list[str] | None:
        files = LocationChecks().files(f"{tmp_path}/{path}")
        return None if files is None else [name.removeprefix(f"{tmp_path}/") for name, _, _ in files]

    assert list_files("day1.csv") == ["day1.csv"]
    assert list_files("day") == list_files("day/") == ["day/1.csv"]
    assert list_files("linked") == ["linked/1.csv"]
    assert set(list_files("day*") or ()) >= {"day/1.csv", "day1.csv", "day2.csv"}
    assert list_files("nothing") is None
    assert LocationChecks().files("hdfs://host/a") is None


def test_objects_are_identified_by_their_etags(
    s3: "S3Client", place: Place, job_environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in job_environment.items():
        monkeypatch.setenv(name, value)
    for name, body in [("in/a.csv", "a"), ("in/b.csv", "bb"), ("inner.csv", "c")]:
        s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/{name}", Body=body.encode())
    before = LocationChecks().files(f"{place.location}/in/*.csv")
    assert before is not None
    assert [(name.rpartition("/")[2], size) for name, size, _ in before] == [("a.csv", 1), ("b.csv", 2)]
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/in/a.csv", Body=b"a")
    assert LocationChecks().files(f"{place.location}/in/*.csv") == before
    s3.put_object(Bucket=BUCKET, Key=f"{place.prefix}/in/a.csv", Body=b"x")
    assert LocationChecks().files(f"{place.location}/in/*.csv") != before
    assert LocationChecks().files("s3://no-such-bucket-here/a.csv") is None
