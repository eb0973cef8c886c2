"""Test that files with unexpected columns, bytes or names are refused by name, or read correctly."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets.files import dataset, run_of
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.run_state import Run
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.location_checks import LocationChecks
from deltaic_pipeline.table.sources import Source, read
from deltaic_terminal.progress import silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COMPLETE_ROW = {"id": 1, "at": {"site": "a", "room": 2}, "xs": [{"n": 1}]}
DECLARED = "id BIGINT, at STRUCT<site: STRING, room: BIGINT>, xs ARRAY<STRUCT<n: BIGINT>>"
OTHER_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "a column missing": ({key: COMPLETE_ROW[key] for key in ("id", "at")}, r"extra: none; missing: xs, xs\.n"),
    "a column more": ({**COMPLETE_ROW, "more": 1}, "extra: more; missing: none"),
    "a column in another case": (
        {"ID": 1, "at": COMPLETE_ROW["at"], "xs": COMPLETE_ROW["xs"]},
        "extra: ID; missing: id",
    ),
    "a nested field missing": ({**COMPLETE_ROW, "at": {"site": "a"}}, r"missing: at\.room"),
    "a nested field more": (
        {**COMPLETE_ROW, "at": {"site": "a", "room": 2, "door": 3}},
        r"extra: at\.door; missing: none",
    ),
    "a nested field in another case": (
        {**COMPLETE_ROW, "at": {"site": "a", "Room": 2}},
        r"extra: at\.Room; missing: at\.room",
    ),
    "a field of elements": ({**COMPLETE_ROW, "xs": [{"m": 1}]}, r"extra: xs\.m; missing: xs\.n"),
}


def parquet(folder: Path, *rows: dict[str, Any]) -> str:
    for number, row in enumerate(rows):
        pq.write_table(pa.Table.from_pylist([row]), folder / f"{number}.parquet")
    return f"{folder}/*.parquet"


@pytest.mark.parametrize("schema", [DECLARED, None])
def test_parquet_file_with_other_fields_is_refused_by_name(
    spark: "SparkSession", tmp_path: Path, schema: str | None
) -> None:
    for case, (row, message) in OTHER_FIELDS.items():
        folder = tmp_path / case
        folder.mkdir()
        source = Source("parquet", [parquet(folder, COMPLETE_ROW, row)], schema=schema)
        with pytest.raises(PipelineError, match=rf"/[01]\.parquet: the columns differ .*{message if schema else ''}"):
            read(spark, source)


def test_parquet_files_may_lack_columns_if_the_schema_evolves(spark: "SparkSession", tmp_path: Path) -> None:
    paths = [parquet(tmp_path, COMPLETE_ROW, {"id": 2})]
    for source in (
        Source("parquet", paths, evolves=True),
        Source("parquet", paths, schema=DECLARED, evolves=True),
        Source("parquet", paths, {"mergeSchema": "true"}),
    ):
        assert sorted(row.id for row in read(spark, source).rows.collect()) == [1, 2]
    parquet(tmp_path, COMPLETE_ROW, {"ID": 2})
    with pytest.raises(PipelineError, match=r"1\.parquet: .*extra: ID"):
        read(spark, Source("parquet", paths, schema=DECLARED, evolves=True))


def test_partition_columns_of_folders_are_not_columns_of_files(spark: "SparkSession", tmp_path: Path) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        (tmp_path / f"day={day}").mkdir()
        parquet(tmp_path / f"day={day}", COMPLETE_ROW)
    for schema in (f"{DECLARED}, day DATE", None):
        assert read(spark, Source("parquet", [str(tmp_path)], schema=schema)).rows.count() == 2


@pytest.mark.parametrize("schema", ["at TIMESTAMP", None])
def test_nanoseconds_in_parquet_are_refused_with_a_remedy(
    spark: "SparkSession", tmp_path: Path, schema: str | None
) -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns"))
    pq.write_table(pa.table({"at": at}), tmp_path / "a.parquet", version="2.6")
    with pytest.raises(PipelineError, match=r"a\.parquet: its column 'at' .* nanoseconds.*coerce_timestamps='us'"):
        read(spark, Source("parquet", [str(tmp_path)], schema=schema))


EMPTY: dict[str, tuple[Sequence[str], dict[str, str], str]] = {
    "no bytes": (["empty.csv"], {}, r"empty\.csv is empty, but must have a header"),
    "one file of several": (["right.csv", "empty.csv"], {}, r"empty\.csv is empty"),
    "names that are left out": (
        ["_a.csv"],
        {"header": "false"},
        "there are no files to read at .*names that start with an underscore",
    ),
    "a folder without files": (["folder"], {}, "there are no files to read at"),
}


def overwriting_run(place: Place, names: Sequence[str], options: dict[str, str]) -> Run:
    paths = [str(place.folder / name) for name in names]
    source = {"format": "csv", "paths": paths, "schema": "id INT", "options": options}
    return run_of(dataset(place.location, sources={"s": source}, write={"mode": "overwrite"}), repr(names))


@pytest.fixture(scope="module")
def delivered_place(
    spark: "SparkSession",
    catalog: JobCatalog,
    store_options: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Place:
    """Return the place of a table with one row, which refused deliveries do not change."""
    place = Place(f"s3://{BUCKET}/delivered-files", "delivered-files", tmp_path_factory.mktemp("in"), store_options)
    (place.folder / "folder").mkdir()
    for name, text in {"right.csv": "id\n1\n", "empty.csv": "", "_a.csv": "7\n"}.items():
        (place.folder / name).write_text(text)
    build(spark, overwriting_run(place, ["right.csv"], {}), catalog, silent)
    return place


@pytest.mark.parametrize("case", EMPTY)
def test_empty_delivery_does_not_empty_the_table(
    spark: "SparkSession", catalog: JobCatalog, delivered_place: Place, case: str
) -> None:
    names, options, message = EMPTY[case]
    with pytest.raises(PipelineError, match=message):
        build(spark, overwriting_run(delivered_place, names, options), catalog, silent)
    assert delivered_place.table().rows("id") == [(1,)]


def test_unreadable_file_is_reported_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "_landing").mkdir()
    for name in ("_a.csv", ".a.csv", "_landing/a.csv"):
        (tmp_path / name).write_text("id\n1\n")
    for name, refused in {
        "_a.csv": True,
        ".a.csv": True,
        "_*.csv": True,
        "_landing": False,
        "_landing/a.csv": False,
    }.items():
        message = LocationChecks().missing_source(f"{tmp_path}/{name}")
        assert (message is not None) == refused, message
        assert not message or "names start with an underscore or a period" in message


TEXT = "id;name\r\n1;Zürich €\r\n2;x\r\n"
ENCODED: dict[str, tuple[bytes, str]] = {
    "Windows-1252": (TEXT.encode("cp1252"), "windows-1252"),
    "UTF-16 with its mark": (TEXT.encode("utf-16"), "UTF-16"),
    "UTF-16 of Excel": (b"\xff\xfe" + TEXT.encode("utf-16-le"), "UTF-16LE"),
    "UTF-16, the other end first": (b"\xfe\xff" + TEXT.encode("utf-16-be"), "UTF-16"),
    "UTF-8 with a mark": (TEXT.encode("utf-8-sig"), "UTF-8"),
}


@pytest.mark.parametrize("case", ENCODED)
def test_csv_is_decoded(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    content, encoding = ENCODED[case]
    (tmp_path / "a.csv").write_bytes(content)
    source = Source("csv", [str(tmp_path)], {"encoding": encoding, "sep": ";"}, "id INT, name STRING")
    assert [tuple(row) for row in read(spark, source).rows.collect()] == [(1, "Zürich €"), (2, "x")]


@pytest.mark.parametrize("encoding", ["windows-1252", "UTF-16", "UTF-16LE"])
@pytest.mark.parametrize("multiple", [False, True])
def test_json_is_decoded(spark: "SparkSession", tmp_path: Path, encoding: str, multiple: bool) -> None:
    text = (
        '[{"id": 1,\n "name": "Zürich €"}, {"id": 2.0}]'
        if multiple
        else '{"id": 1, "name": "Zürich €"}\r\n{"id": 2.0}\r\n'
    )
    (tmp_path / "a.json").write_bytes(text.encode(encoding))
    options = {"encoding": encoding, "multiLine": str(multiple).lower()}
    reading = read(spark, Source("json", [str(tmp_path)], options, "id INT, name STRING"))
    with pytest.raises(Exception, match="a row does not fit"):
        reading.rows.collect()
    place = ":2" if encoding == "windows-1252" and not multiple else ", row 2"
    assert str(reading.misfit_message()).endswith(f"the first is {tmp_path}/a.json{place}: id is not INT")


def test_invalid_bytes_of_an_encoding_are_malformed(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id;name\n1;\x81\n2;x\n")
    options = {"encoding": "windows-1252", "sep": ";"}
    reading = read(spark, Source("csv", [str(tmp_path)], options, "id INT, name STRING"))
    assert str(reading.misfit_message()).endswith(
        "a.csv:2: name is not text in the files' encoding: set the option `encoding`"
    )


INFERRED: dict[str, Callable[[int], str]] = {
    "id": str,
    "zip": lambda number: f"{number:05}",
    "price": lambda number: f"{number},50",
    "weight": lambda number: f"{number}.5",
    "day": lambda number: f"2026-01-{number + 1:02}",
    "clock": lambda number: f"10:{number:02}",
    "at": lambda number: f"2026-01-01 10:{number:02}:00",
    "long": lambda number: f"{10**20 + number}",
    "flag": lambda number: str(number % 2 == 0),
    "none": lambda _: "",
}


def test_inferred_types_use_the_same_grammars(spark: "SparkSession", tmp_path: Path) -> None:
    lines = [";".join(INFERRED), *(";".join(text(number) for text in INFERRED.values()) for number in range(9))]
    (tmp_path / "a.csv").write_text("\n".join([*lines, ""]))
    rows = read(spark, Source("csv", [str(tmp_path)], {"sep": ";"})).rows
    types = {
        "id": "int",
        "weight": "double",
        "day": "date",
        "at": "timestamp",
        "long": "decimal(38,0)",
        "flag": "boolean",
    }
    assert dict(rows.dtypes) == dict.fromkeys(INFERRED, "string") | types
    assert [row.price for row in rows.limit(1).collect()] == ["0,50"]
