"""Test that wrong sources, rows or permissions end a run with one message and no change."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic.errors import Conflict, DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_pipeline.failures import ExpectationFailed, PipelineError, exit_code
from deltaic_pipeline.job_command import Report, run_job
from deltaic_pipeline.spark.spark_errors import refusals
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.lease import TIME_TO_LIVE
from deltaic_pipeline.table.sources import Source, read
from deltaic_terminal.progress import Progress, silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SCHEMA = "id INT NOT NULL, name STRING"
TABLE = f"s3://{BUCKET}/bad-input"


@pytest.fixture(scope="module")
def table(
    spark: "SparkSession", catalog: JobCatalog, s3: "S3Client", tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], list[str]]:
    """Create a table and return a function that lists the log of it and of its quarantine table."""
    source = json_source(tmp_path_factory.mktemp("first"), "s", [{"id": 1, "name": "a"}], SCHEMA)
    build(spark, run_of(dataset(TABLE, sources={"s": source}), "first"), catalog, silent)

    def log() -> list[str]:
        objects = s3.list_objects_v2(Bucket=BUCKET, Prefix="bad-input")["Contents"]
        return [f"{item['Key']} {item['ETag']}" for item in objects if "/_delta_log/0" in item["Key"]]

    assert len(log()) == 1
    return log


def files(source_format: str, path: Path, schema: str | None = SCHEMA, **options: str) -> dict[str, Any]:
    declared = {"schema": schema} if schema else {}
    return {"format": source_format, "paths": [str(path)], "options": options, **declared}


def text(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content)
    return folder / name


def half_a_parquet_file(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    rows = spark.sql("SELECT 1 AS id, 'x' AS name")
    rows.coalesce(1).write.parquet(str(folder / "p"))
    [file] = (folder / "p").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    (folder / "p" / f".{file.name}.crc").unlink()
    return files("parquet", folder / "p")


def parquet_without_a_column(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    spark.sql("SELECT 1 AS id, 2 AS more").write.parquet(str(folder / "p"))
    return files("parquet", folder / "p")


def parquet_of_two_types(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    spark.sql("SELECT 1 AS id, 'x' AS name").write.parquet(str(folder / "p"))
    spark.sql("SELECT 'one' AS id, 'x' AS name").write.mode("append").parquet(str(folder / "p"))
    return files("parquet", folder / "p", None)


def avro_with_another_column(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    spark.sql("SELECT 1 AS id, 'x' AS nam").write.format("avro").save(str(folder / "a"))
    return files("avro", folder / "a")


def half_a_gzip(_: "SparkSession", folder: Path) -> dict[str, Any]:
    compressed = gzip.compress("".join(f'{{"id": {n}, "name": "{n * n}"}}\n' for n in range(5000)).encode())
    (folder / "half.json.gz").write_bytes(compressed[: len(compressed) // 2])
    return files("json", folder / "half.json.gz")


def text_source(
    name: str, content: str, schema: str | None = SCHEMA
) -> Callable[["SparkSession", Path], dict[str, Any]]:
    return lambda _, folder: files(name.rpartition(".")[2], text(folder, name, content), schema)


SOURCES: dict[str, tuple[Callable[["SparkSession", Path], dict[str, Any]], str]] = {
    "missing source": (lambda _, folder: files("csv", folder / "none*.csv"), "PATH_NOT_FOUND"),
    "empty glob": (lambda _, folder: files("json", folder / "*.json"), "PATH_NOT_FOUND"),
    "half a CSV line": (text_source("a.csv", "id,name\n1,a\n2"), r"a\.csv:3: does not have one value for each column"),
    "CSV line too long": (
        text_source("a.csv", "id,name\n1,a,b\n"),
        r"a\.csv:2: does not have one value for each column",
    ),
    "CSV with another header": (
        text_source("a.csv", "id,nam\n1,a\n"),
        r"sources\.s: .*a\.csv: column 2 of its header is not 'name', as the schema says, but 'nam'$",
    ),
    "CSV with its columns in another order": (
        text_source("a.csv", "name,id\na,1\n"),
        "column 1 .* not 'id', .* but 'name'$",
    ),
    "CSV with more columns": (
        text_source("a.csv", "id,name,x\n1,a,2\n"),
        r"sources\.s: .* 3 columns, and the schema 2$",
    ),
    "CSV with another separator": (text_source("a.csv", "id;name\n1;a\n"), "is `sep` the separator"),
    "CSV with another type": (text_source("a.csv", "id,name\none,a\n"), r"sources\.s: .*a\.csv:2: id is not INT"),
    "half a JSON line": (
        text_source("a.json", '{"id": 1, "name": "a"}\n{"id": 2, "na'),
        r"a\.json:2: is not one JSON object",
    ),
    "JSON with another type": (text_source("a.json", '{"id": "one", "name": "a"}\n'), r"a\.json:1: id is not INT"),
    "JSON with another field": (text_source("a.json", '{"id": 1, "name": "a", "more": 1}\n'), "does not have: more;"),
    "JSON with a field in capitals": (text_source("a.json", '{"id": 1, "NAME": "a"}\n'), "does not have: NAME;"),
    "JSON without a field": (
        text_source("a.json", '{"name": "a"}\n'),
        r"a\.json:1: id is null, and the schema says NOT NULL",
    ),
    "half a gzip file": (half_a_gzip, "end of|EOF|Unexpected"),
    "half a Parquet file": (half_a_parquet_file, "footer|Parquet"),
    "Parquet with other columns": (parquet_without_a_column, "missing: name"),
    "Parquet of two types": (parquet_of_two_types, "CANNOT_MERGE|merge"),
    "Avro with other columns": (avro_with_another_column, "nam; missing: name"),
    "schema that is none": (text_source("a.csv", "id\n1\n", "id NUMMER("), "sources.s"),
    "table that is none": (lambda _, folder: {"format": "delta", "path": str(folder)}, "not a Delta table|DELTA_"),
    "database that is none": (
        lambda *_: {
            "format": "jdbc",
            "url": "jdbc:derby:memory:nothing",
            "table": "t",
            "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        },
        "sources.s: .*not found",
    ),
    "password that is not set": (
        lambda *_: {
            "format": "jdbc",
            "url": "jdbc:derby:memory:x",
            "table": "t",
            "password": {"environment": "NOT_SET"},
        },
        "NOT_SET",
    ),
}


COVERED = {
    *("half a CSV line", "CSV line too long", "CSV with another type", "half a JSON line", "JSON with another type"),
    *("JSON with a field in capitals", "half a gzip file", "half a Parquet file"),
}
"""Sources like others or like those of `test_messages_without_values`: CI does not run them."""


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.long] * (case in COVERED)) for case in SOURCES])
def test_broken_source_leaves_the_table_unchanged(
    spark: "SparkSession", catalog: JobCatalog, tmp_path: Path, table: Callable[[], list[str]], case: str
) -> None:
    source, message = SOURCES[case]
    failure = refused(spark, catalog, table, dataset(TABLE, sources={"s": source(spark, tmp_path)}), message)
    assert exit_code(failure) == 1


HEADERS: dict[str, tuple[bytes, dict[str, str], bool]] = {
    "right": (b"id,name\n1,a\n", {}, False),
    "capitals": (b"ID,Name\r\n1,a\r\n", {}, False),
    "quoted": (b'"id","name"\n1,a\n', {}, False),
    "behind blank lines": (b"\n  \nid,name\n1,a\n", {}, False),
    "another separator": (b"id;name\n1;a\n", {"SEP": ";"}, False),
    "another quote": (b"'id','name'\n1,a\n", {"quote": "'"}, False),
    "no header": (b"1,a\n", {"header": "false"}, False),
    "not enforced": (b"a,b\n1,a\n", {"enforceSchema": "true"}, False),
    "a comment": (b"#x\nid,name\n1,a\n", {"comment": "#"}, False),
    "another encoding": ("id,name\n1,a\n".encode("utf-16"), {"encoding": "UTF-16", "multiLine": "true"}, False),
    "spaces that do not count": (b"id, name\n1,a\n", {"ignoreLeadingWhiteSpace": "true"}, False),
    "a byte order mark": (b"\xef\xbb\xbfid,name\n1,a\n", {}, False),
    "nothing": (b"", {}, True),
    "another name": (b"id,nam\n1,a\n", {"nullValue": "-"}, True),
    "a space": (b"id, name\n1,a\n", {}, True),
    "another order": (b"name,id\na,1\n", {}, True),
    "too many": (b"id,name,x\n1,a,2\n", {}, True),
    "too few": (b"id\n1\n", {}, True),
    "another separator than declared": (b"id;name\n1;a\n", {}, True),
}


@pytest.mark.parametrize("case", HEADERS)
def test_header_that_differs_from_the_schema_is_refused(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    content, options, wrong = HEADERS[case]
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    source = Source("csv", [str(file)], options, "id INT, name STRING", "drop")
    message = ""
    try:
        with refusals():
            read(spark, source).rows.collect()
    except PipelineError as refusal:
        message = refusal.message
    assert ("header" in message) is wrong
    assert bool(message) is wrong


def test_row_in_place_of_a_header_is_not_shown(
    spark: "SparkSession", catalog: JobCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = files("csv", text(tmp_path, "a.csv", "7,Alice\n"))

    def job(_: Progress, __: Report) -> None:
        build(spark, run_of(dataset(f"{TABLE}-headless", sources={"s": source})), catalog, silent)

    assert run_job(job, as_json=False, stopped="") == 1
    hidden = capsys.readouterr().err
    assert hidden.endswith("a.csv: column 1 of its header is not 'id', as the schema says\n")
    assert run_job(job, as_json=False, stopped="", show_values=True) == 1
    complete = capsys.readouterr().err
    assert complete.startswith(hidden)
    assert "Header: 7, Alice" in complete


def step(sql: str) -> dict[str, Any]:
    return {"steps": [{"view": "v", "sql": sql}]}


ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "SQL with an unknown column": (step("SELECT nothing FROM s"), r"steps.0.sql.*nothing"),
    "SQL that is none": (step("SELECT id a b FROM s"), r"steps.0.sql"),
    "row that fails": (step("SELECT id, raise_error('row 7') AS name FROM s"), "USER_RAISED_EXCEPTION|void"),
    "missing column": (step("SELECT id FROM s"), r"schema drift: name \(string\) is missing"),
    "new column": (step("SELECT *, 1 AS more FROM s"), r"schema drift: more \(int\) is not in the table"),
    "other type": (step("SELECT id, array(name) AS name FROM s"), "name"),
    "other partitions": ({"target": {"partition_by": ["name"]}}, "partitioned by nothing"),
    "no partitions to overwrite": (
        {"write": {"mode": "overwrite_partitions"}, "target": {"partition_by": ["id"]}},
        "not partitioned",
    ),
    "rows outside the condition": (
        {"write": {"mode": "overwrite_partitions", "where": "id < 5"}},
        "replaceWhere|REPLACE_WHERE|does not conform",
    ),
    "null key": (
        {"write": {"mode": "merge", "keys": ["id"]}, **step("SELECT nullif(id, 7) AS id, name FROM s")},
        r"no key \(id = None\)",
    ),
    "key given twice": (
        {"write": {"mode": "merge", "keys": ["id"]}, **step("SELECT * FROM s UNION ALL SELECT * FROM s")},
        r"same key \(id = \.\.\.\)",
    ),
    "unknown key": ({"write": {"mode": "merge", "keys": ["nr"]}}, "write.keys.*: 'nr' is not a column"),
    "column of states": (
        {"write": {"mode": "scd2", "keys": ["id"], "valid_from": "name"}},
        "schema drift: name",
    ),
    "unknown property": ({"target": {"properties": {"delta.nonsense": 1}}}, "delta.nonsense"),
    "expectation of no column": ({"expectations": [{"expect": "not_null", "columns": ["nr"]}]}, "'nr' is not a column"),
    "condition that is none": (
        {"expectations": [{"expect": "sql", "name": "x", "condition": "id > > 1"}]},
        "the expectation x: .*yntax",
    ),
    "reference to no column": (
        {"expectations": [{"expect": "reference", "columns": ["id"], "to": "s", "to_columns": ["nr"]}]},
        "'nr' is not a column of s",
    ),
}


COVERED_ROWS = {"null key", "key given twice", "rows outside the condition"}
"""Rows like those of `test_messages_without_values`: CI does not run them."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] * (case in COVERED_ROWS)) for case in ROWS]
)
def test_unsuitable_rows_leave_the_table_unchanged(
    spark: "SparkSession", catalog: JobCatalog, tmp_path: Path, table: Callable[[], list[str]], case: str
) -> None:
    parts, message = ROWS[case]
    source = json_source(tmp_path, "s", [{"id": 7, "name": "a"}], SCHEMA)
    refused(spark, catalog, table, dataset(TABLE, sources={"s": source}, **parts), message)


FAIL: dict[str, tuple[dict[str, Any], str]] = {
    "not null": ({"expect": "not_null", "columns": ["name"]}, r"not_null_name \(1 of 3 rows\)"),
    "range": ({"expect": "range", "column": "id", "max": 2}, r"range_id \(1 of 3 rows\)"),
    "unique": ({"expect": "unique", "columns": ["name"]}, r"unique_name \(2 of 3 rows\)"),
    "row count": ({"expect": "row_count", "min": 4}, r"3 rows, expected 4 to any"),
}


@pytest.mark.parametrize("case", FAIL)
def test_failed_expectation_leaves_the_table_unchanged(
    spark: "SparkSession", catalog: JobCatalog, tmp_path: Path, table: Callable[[], list[str]], case: str
) -> None:
    expectation, message = FAIL[case]
    rows: list[dict[str, Any]] = [{"id": 1, "name": "x"}, {"id": 2, "name": "x"}, {"id": 3}]
    aside = {"expect": "accepted_values", "column": "id", "values": [2, 3], "action": "quarantine"}
    content = dataset(TABLE, sources={"s": json_source(tmp_path, "s", rows, SCHEMA)}, expectations=[aside, expectation])
    failure = refused(spark, catalog, table, content, message)
    assert isinstance(failure, ExpectationFailed)
    assert exit_code(failure) == 3


def test_bucket_without_write_access_stays_empty(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    s3.create_bucket(Bucket="closed")
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.bucket.closed.access.key", "nobody")
    hadoop.set("fs.s3a.bucket.closed.secret.key", "nothing")
    source = json_source(place.folder, "s", [{"id": 1}])
    with pytest.raises(PipelineError, match=r"403|Forbidden|AccessDenied|not permitted") as refusal:
        build(spark, run_of(dataset("s3://closed/t", sources={"s": source})), catalog, silent)
    assert "\n" not in refusal.value.message
    assert s3.list_objects_v2(Bucket="closed")["KeyCount"] == 0


def test_files_without_read_access_leave_the_table_unchanged(
    spark: "SparkSession", catalog: JobCatalog, table: Callable[[], list[str]], s3: "S3Client"
) -> None:
    s3.create_bucket(Bucket="of-others")
    s3.put_object(Bucket="of-others", Key="a.json", Body=b'{"id": 1, "name": "a"}')
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.bucket.of-others.access.key", "nobody")
    hadoop.set("fs.s3a.bucket.of-others.secret.key", "nothing")
    source = {"format": "json", "paths": ["s3://of-others/a.json"], "schema": SCHEMA}
    content = dataset(TABLE, sources={"s": source})
    failure = refused(spark, catalog, table, content, r"sources\.s: .*(403|Forbidden|AccessDenied|not permitted)")
    assert exit_code(failure) == 1


def test_table_with_another_writer_is_refused(
    spark: "SparkSession", catalog: JobCatalog, tmp_path: Path, table: Callable[[], list[str]]
) -> None:
    catalog.leases.acquire(TABLE, "somebody", TIME_TO_LIVE)
    try:
        content = dataset(TABLE, sources={"s": json_source(tmp_path, "s", [{"id": 1, "name": "x"}], SCHEMA)})
        failure = refused(spark, catalog, table, content, "being written by somebody")
    finally:
        catalog.leases.release(TABLE, "somebody")
    assert isinstance(failure, Conflict)
    assert exit_code(failure) == 4


def refused(
    spark: "SparkSession", catalog: JobCatalog, table: Callable[[], list[str]], content: dict[str, Any], message: str
) -> DeltaicError:
    before = table()
    with pytest.raises(DeltaicError, match=message) as refusal:
        build(spark, run_of(content, uuid4().hex), catalog, silent)
    assert "\n" not in refusal.value.message
    assert "java." not in refusal.value.message
    assert table() == before
    return refusal.value
