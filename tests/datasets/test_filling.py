"""Test the number of written files: one for small tables, otherwise limited in size."""

from typing import TYPE_CHECKING

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic_datasets.run.batch import build
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.file_sizing import LARGE, MOST_PLAUSIBLE, SMALL, task_count
from deltaic_terminal.progress import silent
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("size", "cores", "tasks"),
    [
        (0, 8, 1),
        (SMALL, 8, 1),
        (SMALL + 1, 8, 2),
        (8 * SMALL, 8, 8),
        (13 * LARGE - 1, 8, 13),
        (LARGE, 2, 2),
        (9 * LARGE, 2, 9),
        (9 * LARGE + 1, 2, 10),
        (MOST_PLAUSIBLE + 1, 2, 2),
        (2**63 - 1, 4, 4),
    ],
)
def test_run_writes_few_files_of_limited_size(size: int, cores: int, tasks: int) -> None:
    assert task_count(size, cores) == tasks


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize(
    "write",
    [
        pytest.param({"mode": "append"}, id="append"),
        pytest.param({"mode": "merge", "keys": ["id"]}, id="merge", marks=pytest.mark.long),
    ],
)
def test_many_small_files_become_one(
    spark: "SparkSession", catalog: JobCatalog, place: Place, write: dict[str, object]
) -> None:
    for number in range(5):
        json_source(place.folder, f"{number}", [{"id": number}])
    source = {"format": "json", "paths": [f"{place.folder}/*.json"], "schema": "id INT"}
    many = {"spark.sql.files.openCostInBytes": str(1 << 30)}  # a task for each file
    for name, value in many.items():
        spark.conf.set(name, value)
    try:
        build(spark, run_of(dataset(place.location, sources={"s": source}, write=write)), catalog, silent)
    finally:
        for name in many:
            spark.conf.unset(name)
    assert place.table().rows("id") == [(number,) for number in range(5)]
    assert len(place.table().open().file_uris()) == 1
