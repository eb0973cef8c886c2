"""Test that messages about rows show file, column and condition, and values only with --show-values."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from datasets.files import dataset, run_of
from deltaic.errors import DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.job_command import Report, run_job
from deltaic_pipeline.spark.spark_errors import SAFE_PARAMETERS, raise_sql, refusals
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_terminal.progress import Progress, silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NAME, NUMBER = "Ottilie-Wiesengrund", 9223372036854770123
TABLE = f"s3://{BUCKET}/messages-without-values"
Source = Callable[["SparkSession", Path], dict[str, Any]]


def rows(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    """Return a row whose name and number no message may contain."""
    row = spark.sql(f"SELECT 1 AS id, '{NAME}' AS name, {NUMBER}L AS number")
    row.coalesce(1).write.parquet(str(folder / "rows"))
    return {"format": "parquet", "paths": [str(folder / "rows")]}


def half_a_parquet_file(spark: "SparkSession", folder: Path) -> dict[str, Any]:
    source = rows(spark, folder)
    [file] = (folder / "rows").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    (folder / "rows" / f".{file.name}.crc").unlink()
    return source | {"schema": "id INT, name STRING", "options": {"mergeSchema": "false"}}


def half_a_gzip(_: "SparkSession", folder: Path) -> dict[str, Any]:
    compressed = gzip.compress(("id,name\n" + "".join(f"{n},{NAME} {n * n}\n" for n in range(1, 5000))).encode())
    (folder / "half.csv.gz").write_bytes(compressed[: len(compressed) // 2])
    return {"format": "csv", "paths": [str(folder / "half.csv.gz")], "schema": "id INT, name STRING"}


def text(name: str, content: str) -> Source:
    def source(_: "SparkSession", folder: Path) -> dict[str, Any]:
        (folder / name).write_text(content)
        return {"format": name.rpartition(".")[2], "paths": [str(folder / name)], "schema": "id INT, name STRING"}

    return source


EXPRESSIONS = {
    "cast": ("CAST(name AS INT)", r'^\[CAST_INVALID_INPUT\].*"STRING".*"INT".*\(in CAST\(name AS INT\)\)$'),
    "cast to a date": ("CAST(name AS DATE)", '"DATE"'),
    "cast to an interval": ("CAST(name AS INTERVAL DAY)", "interval day"),
    "cast to a decimal": ("CAST(number AS DECIMAL(3, 0))", r"Decimal\(3, 0\)"),
    "overflow of a cast": ("CAST(number AS INT)", 'CAST_OVERFLOW.*"BIGINT".*"INT"'),
    "overflow of a sum": ("sum(number)", r"\[ARITHMETIC_OVERFLOW\] long overflow"),
    "overflow of a product": ("number * 2", r"\(in number \* 2\)"),
    "division": ("number / (id - 1)", r"\[DIVIDE_BY_ZERO\].*\(in number / \(id - 1\)\)"),
    "number format": ("to_number(name, '999')", "INVALID_FORMAT.*STRING"),
    "date format": ("to_date(name, 'yyyy-MM-dd')", "CANNOT_PARSE_TIMESTAMP.*try_to_date"),
    "time zone": ("from_utc_timestamp(now(), name)", "INVALID_TIMEZONE"),
    "address": ("parse_url(concat('http://[', name), 'HOST')", "INVALID_URL.*URISyntaxException"),
    "hexadecimal": ("to_binary(name, 'hex')", 'CONVERSION_INVALID_INPUT.*"BINARY"'),
    "regular expression": ("regexp_replace('a', concat('(', name), 'b')", "`regexp` in `regexp_replace`"),
    "message of a step": ("raise_error(name)", "USER_RAISED_EXCEPTION"),
    "assertion of a step": ("assert_true(id > 1, name)", "USER_RAISED_EXCEPTION"),
    "key of a map twice": ("map(name, 1, name, 2)", "DUPLICATED_MAP_KEY"),
    "broken JSON": ("from_json(concat('{\"a\": ', name), 'a INT', map('mode', 'FAILFAST'))", "JsonParseException"),
    "value in JSON": ("from_json(to_json(named_struct('a', name)), 'a INT', map('mode', 'FAILFAST'))", '"INT"'),
    "value in CSV": ("from_csv(name, 'a INT', map('mode', 'FAILFAST'))", "MALFORMED.*NumberFormatException"),
    "variant": ("variant_get(parse_json(concat('\"', name, '\"')), '$', 'int')", 'INVALID_VARIANT_CAST.*"INT"'),
}

ROWS = {"steps": [{"view": "v", "sql": "SELECT id, name FROM s"}]}
TWICE = {"steps": [{"view": "v", "sql": "SELECT id, name FROM s UNION ALL SELECT id, name FROM s"}]}
NO_ID = {"steps": [{"view": "v", "sql": "SELECT nullif(id, 1) AS id, name FROM s"}]}
FAULTS: dict[str, tuple[Source, dict[str, Any], str]] = {
    "constraint": (
        rows,
        {"steps": [{"view": "v", "sql": "SELECT -1 AS id, name FROM s"}]},
        r"CHECK constraint known \(.*name",
    ),
    "column without nulls": (rows, NO_ID, "CONSTRAINT.*id"),
    "rows outside of what is overwritten": (
        rows,
        ROWS | {"write": {"mode": "overwrite_partitions", "where": "name < 'A'"}},
        "REPLACE_WHERE_MISMATCH.*name < 'A'",
    ),
    "key twice": (rows, TWICE | {"write": {"mode": "merge", "keys": ["name"]}}, r"same key \(name = \.\.\.\)"),
    "half a key": (
        rows,
        NO_ID | {"write": {"mode": "merge", "keys": ["id", "name"]}},
        r"no key \(id = None, name = \.\.\.\)",
    ),
    "half a Parquet file": (half_a_parquet_file, {}, r"part-\S+\.parquet.*is not a complete Parquet file"),
    "half a gzip file": (half_a_gzip, {}, r"half\.csv\.gz"),
    "CSV of another type": (text("a.csv", f"id,name\n{NAME},x\n"), {}, r"a\.csv:2: "),
    "CSV line too long": (text("a.csv", f"id,name\n1,{NAME},x\n"), {}, r"a\.csv:2: "),
    "CSV without a header": (text("a.csv", f"1,{NAME}\n"), {}, r"a\.csv: column 1"),
    "JSON that is none": (text("a.json", f'{{"id": 1, "name": {NAME}'), {}, r"a\.json:1: "),
    "JSON of another type": (text("a.json", f'{{"id": "{NAME}"}}\n'), {}, r"a\.json:1: "),
}
WITHOUT_VALUES = {
    *("overflow of a sum", "overflow of a product", "division", "half a Parquet file", "half a gzip file"),
    *("column without nulls", "CSV of another type", "CSV line too long", "JSON that is none", "JSON of another type"),
}
"""Cases in which Spark's own message has no values."""


@pytest.fixture(scope="module")
def table(spark: "SparkSession", s3: "S3Client") -> str:
    assert s3.head_bucket(Bucket=BUCKET)
    location = TABLE.replace("s3://", "s3a://")
    spark.sql(f"CREATE TABLE delta.`{location}` (id INT NOT NULL, name STRING) USING delta")
    spark.sql(f"ALTER TABLE delta.`{location}` ADD CONSTRAINT known CHECK (coalesce(id, 1) > 0 OR name = 'nobody')")
    return TABLE


@pytest.fixture(scope="module")
def one_row(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "DataFrame":
    return spark.read.parquet(*rows(spark, tmp_path_factory.mktemp("one"))["paths"])


@pytest.fixture(scope="module")
def logged(spark: "SparkSession") -> Iterator[Callable[[], str]]:
    """Capture the logs of the JVM, with the configuration of jobs."""
    jvm: Any = spark.sparkContext._jvm
    writer = jvm.java.io.StringWriter()
    appender = jvm.org.apache.logging.log4j.core.appender.WriterAppender.newBuilder()
    appender = appender.setName("tests").setTarget(writer).build()
    appender.start()
    context = jvm.org.apache.logging.log4j.LogManager.getContext(False)  # noqa: FBT003 -- a value
    context.getConfiguration().getRootLogger().addAppender(appender, None, None)
    context.updateLoggers()
    yield writer.toString
    context.getConfiguration().getRootLogger().removeAppender("tests")
    context.updateLoggers()


def tells_values(*texts: str) -> bool:
    return any(part in text for text in texts for part in (*NAME.split("-"), str(NUMBER)))


def printed(refusal: DeltaicError, capsys: pytest.CaptureFixture[str], **how: bool) -> str:
    """Return the output of a job that fails with this error."""

    def job(_: Progress, __: Report) -> None:
        raise refusal

    assert run_job(job, stopped="", **{"as_json": False, **how}) == 1
    printed = capsys.readouterr()
    return printed.out + printed.err


def judge(refusal: DeltaicError, capsys: pytest.CaptureFixture[str], logged: Callable[[], str], case: str) -> None:
    output, event = printed(refusal, capsys), printed(refusal, capsys, as_json=True)
    assert refusal.message in output
    assert json.loads(event.splitlines()[0])["message"] == refusal.message
    assert not tells_values(output, event, logged())
    assert ("--show-values" in output) is ("..." in refusal.message)
    complete = printed(refusal, capsys, show_values=True)
    assert complete.startswith(f"error: {refusal.message}")
    assert tells_values(complete) is (case not in WITHOUT_VALUES)


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_failed_step_shows_its_condition_without_values_by_default(
    one_row: "DataFrame",
    logged: Callable[[], str],
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    expression, message = EXPRESSIONS[case]
    query = one_row.unionAll(one_row).selectExpr(f"{expression} AS made")
    with pytest.raises(PipelineError, match=message) as refusal, refusals():
        query.write.format("noop").mode("overwrite").save()
    judge(refusal.value, capsys, logged, case)


@pytest.mark.parametrize("case", FAULTS)
def test_failed_run_shows_file_or_column_without_values_by_default(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    catalog: JobCatalog,
    tmp_path: Path,
    table: str,
    logged: Callable[[], str],
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    source, parts, message = FAULTS[case]
    content = dataset(table, sources={"s": source(spark, tmp_path)}, **parts)
    with pytest.raises(DeltaicError, match=message) as refusal:
        build(spark, run_of(content, uuid4().hex), catalog, silent)
    judge(refusal.value, capsys, logged, case)


def test_failed_stream_shows_its_condition_without_values_by_default(
    spark: "SparkSession",
    catalog: JobCatalog,
    place: Place,
    logged: Callable[[], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = rows(spark, place.folder) | {"schema": "id INT, name STRING, number LONG"}
    content = dataset(
        place.location,
        sources={"s": source},
        steps=[{"view": "v", "sql": "SELECT CAST(name AS INT) AS id FROM s"}],
        stream={"source": "s", "checkpoint": f"{place.location}-checkpoint"},
    )
    with pytest.raises(PipelineError, match=r"^steps\.0\.sql: \[CAST_INVALID_INPUT\].*CAST\(name AS INT\)") as refusal:
        build(spark, run_of(content, uuid4().hex), catalog, silent)
    judge(refusal.value, capsys, logged, "stream")


def test_messages_of_our_own_are_shown(one_row: "DataFrame") -> None:
    with pytest.raises(PipelineError, match=r"^a state is late$"), refusals():
        one_row.selectExpr(f"CAST({raise_sql('a state is late')} AS STRING)").collect()


def test_unexpected_error_shows_its_position_without_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    def job(_: Progress, __: Report) -> None:
        raise ValueError(NAME)

    assert run_job(job, as_json=False, stopped="") == 1
    output = capsys.readouterr().err
    assert "raise ValueError(NAME)" in output
    assert output.endswith("error: ValueError: ...\n(... can be row data: --show-values shows the complete message)\n")
    with pytest.raises(ValueError, match=NAME):
        run_job(job, as_json=False, stopped="", show_values=True)


def test_errors_of_spark_outside_a_run_have_no_values(one_row: "DataFrame", capsys: pytest.CaptureFixture[str]) -> None:
    def job(_: Progress, __: Report) -> None:
        one_row.selectExpr("CAST(name AS INT)").collect()

    assert run_job(job, as_json=False, stopped="") == 1
    output = capsys.readouterr().err
    assert output.startswith("error: [CAST_INVALID_INPUT] ")
    assert not tells_values(output)


def test_fixture_captures_logs_of_the_jvm(spark: "SparkSession", logged: Callable[[], str]) -> None:
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.logging.log4j.LogManager.getLogger("of.somebody.else").error("heard")
    assert "heard" in logged()


def test_shown_parameters_are_those_of_error_conditions(spark: "SparkSession") -> None:
    jvm: Any = spark.sparkContext._jvm
    loader = jvm.org.apache.spark.util.Utils.getSparkClassLoader()
    files = ("error/error-conditions.json", "error/delta-error-classes.json")
    texts = [bytes(loader.getResource(file).openStream().readAllBytes()).decode() for file in files]
    parameters = set(re.findall(r"<(\w+)>", "".join(texts)))
    shown_names = SAFE_PARAMETERS.pattern.replace("\\", "").split("|")
    assert {name.rpartition(".")[2] for name in shown_names} <= parameters
    assert {name.rpartition(".")[0] for name in shown_names if "." in name} <= {
        condition for text in texts for condition in json.loads(text)
    }
