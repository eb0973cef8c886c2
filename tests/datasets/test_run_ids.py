"""Test that scheduled datasets can share a run id and tables."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.watermark import Advance
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.run_log import append, rows, schema, transaction_of
from deltaic_pipeline.table.transactions import Transaction
from deltaic_terminal.progress import silent
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASIDE = [{"expect": "range", "column": "id", "max": 8, "action": "quarantine"}]


def test_transaction_ids_differ_by_dataset_and_target() -> None:
    runs = [Transaction.of_run("r", name) for name in ("", "doses", "sites")]
    target_transactions = [run.of_target(f"s3://b/{table}") for run in runs for table in ("t", "u")]
    done = [transaction_of(name, f"s3://b/{table}", "r", done=True) for name in ("doses", "sites") for table in "tu"]
    marked = [Advance(name, "r", 1, {}, aside=True).transaction for name in ("doses", "sites")]
    everyone = [*runs, *target_transactions, *done, *marked]
    assert len({item.application for item in everyone}) == len(everyone)
    for tables in ([*runs, *target_transactions], done):  # a runs table cannot be a quarantine table
        for item in tables:
            assert [metadata for metadata in tables if item.matches(metadata.user_metadata)] == [item]
    again = transaction_of("doses", "s3a://b/t/", "r", done=True)
    assert again.application == transaction_of("doses", "s3://b/t", "r", done=True).application
    assert Transaction.of_run("r", "doses").of_target("s3a://b/t/") == Transaction.of_run("r", "doses").of_target(
        "s3://b/t"
    )


def test_watermarks_are_not_part_of_a_transaction_of_a_run() -> None:
    first, later = (Transaction("a", 1, {"run": "r"}, delivery=digest) for digest in ("1", ""))
    assert first.matches(later.user_metadata)
    assert later.matches(first.user_metadata)
    assert not first.matches('{"run": "other", "delivery": "1", "aside": false}')
    assert not any(first.matches(metadata) for metadata in (None, "", "text", "[1]", "3"))


@pytest.mark.spark
@pytest.mark.long  # in CI: test_transaction_ids_differ_by_dataset_and_target
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_datasets_with_the_same_run_id_write_to_the_same_tables(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    def run(name: str, ids: list[int], location: str = place.location) -> Any:
        source = json_source(place.folder, name, [{"id": item} for item in ids], "id INT")
        content = dataset(location, sources={"s": source}, expectations=ASIDE, quarantine=f"{place.location}_aside")
        return build(spark, run_of({**content, "name": name}, "2026-11-26T06:00"), catalog, silent)

    summaries = [run("doses", [1, 91]), run("sites", [2, 92]), run("doses", [3, 93], f"{place.location}_other")]
    assert [(item.repeated, item.written, item.quarantined) for item in summaries] == [(False, 1, 1)] * 3
    assert run("sites", [2, 92]).repeated
    assert place.table().rows("id") == [(1,), (2,)]
    assert place.table("_aside").rows("id") == [(91,), (92,), (93,)]


def test_datasets_with_the_same_run_id_have_separate_rows_of_runs(
    catalog: JobCatalog, place: Place, embedded_aws: EmbeddedAws
) -> None:
    access = S3Access.from_environment(embedded_aws.environment)
    for name, target in [("doses", "t"), ("sites", "t"), ("doses", "u"), ("doses", "t")]:
        row = {"dataset": name, "run": "r", "exit": 0, "location": f"s3://b/{target}", "began": datetime.now(UTC)}
        append(place.location, dict.fromkeys(schema().names) | row, catalog.leases, access, None)
    rows_by_run = [(item["dataset"], item["location"]) for item in rows(place.location, access)]
    assert sorted(rows_by_run) == [("doses", "s3://b/t"), ("doses", "s3://b/u"), ("sites", "s3://b/t")]
