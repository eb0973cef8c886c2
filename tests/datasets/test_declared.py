"""Test checks of declared types, columns, options and conditions without Spark."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from deltaic_datasets.file.file_checks import check
from deltaic_datasets.file.file_text import LARGEST_BYTES
from deltaic_datasets.file.schedule import check_schedule
from deltaic_pipeline.spark.ddl import TYPES, WrongDdl, columns_of
from deltaic_pipeline.spark.options import READERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = """\
name: doses
sources:
  inbox:
    format: csv
    paths: [s3://inbox/*.csv]
    schema: |
      id BIGINT NOT NULL,
      day DATE, dose INT, label STRING COMMENT 'a, b', ok BOOLEAN, tags ARRAY<STRUCT<a: INT, b STRING>>
    options: {sep: ";"}
target:
  location: s3://lake/doses
  columns: {label: What it is}
  cluster_by: [day]
  properties: {delta.checkpointInterval: 10}
write: {mode: merge, keys: [id]}
expectations:
  - {expect: not_null, columns: [day]}
  - {expect: range, column: dose, min: 1, max: 4}
  - {expect: sql, condition: "dose > 0"}
  - {expect: reference, columns: [id], to: inbox}
schedule: {expression: "cron(0 6 * * ? *)"}
"""


def test_consistent_declarations_are_accepted() -> None:
    assert check(DECLARED).findings == []


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "message"),
    [
        pytest.param(
            "dose INT", "dose DECMAL(12,2)", 8, "sources.inbox.schema", "'DECMAL', .*did you mean decimal", id="type"
        ),
        pytest.param("<a: INT", "<a: INTT", 8, "sources.inbox.schema", "'INTT', .*did you mean int", id="type within"),
        pytest.param("ok BOOLEAN", "DAY STRING", 8, "sources.inbox.schema", "column 'DAY' twice", id="column twice"),
        pytest.param("ok BOOLEAN", "ok", 8, "sources.inbox.schema", "'ok' no type", id="no type"),
        pytest.param("NOT NULL,", "NOT NULL", 8, "sources.inbox.schema", "'day' where a comma is", id="comma missing"),
        pytest.param("dose INT,", "dose INT,,", 8, "sources.inbox.schema", "extra comma", id="comma"),
        pytest.param("dose INT,", "dose DECIMAL(3,", 8, "sources.inbox.schema", "bracket", id="bracket"),
        pytest.param(
            "sep: ",
            "seperator: ",
            9,
            "sources.inbox.options.seperator",
            "is not an option of Spark's csv reader",
            id="option",
        ),
        pytest.param("sep: ", "heeder: ", 9, "sources.inbox.options.heeder", "did you mean header", id="option typo"),
        pytest.param("label: What", "lable: What", 12, "target.columns.lable", "did you mean label", id="comment"),
        pytest.param("[day]\n  p", "[dya]\n  p", 13, "target.cluster_by[0]", "'dya' .*did you mean day", id="cluster"),
        pytest.param("[day]\n  p", "[ok]\n  p", 13, "target.cluster_by[0]", "boolean, ", id="cluster type"),
        pytest.param("[day]\n  p", "[day, DAY]\n  p", 13, "target.cluster_by[1]", "twice", id="cluster twice"),
        pytest.param("cluster_by: [day]", "partition_by: [dya]", 13, "target.partition_by[0]", "mean day", id="by"),
        pytest.param(
            "cluster_by: [day]",
            "partition_by: [tags]",
            13,
            "target.partition_by[0]",
            "cannot be partitioned",
            id="by a list",
        ),
        pytest.param("keys: [id]", "keys: [ident]", 15, "write.keys[0]", "'ident' is not a column", id="key"),
        pytest.param(
            "merge, keys: [id]", "scd2, keys: [id], at: dy", 15, "write.at", "'dy' .*did you mean day", id="at"
        ),
        pytest.param("columns: [day]", "columns: [days]", 17, "expectations[0].columns[0]", "mean day", id="rule"),
        pytest.param("column: dose", "column: does", 18, "expectations[1].column", "mean dose", id="range's column"),
        pytest.param("min: 1, max: 4", "min: 4, max: 1", 18, "expectations[1].min", "4 is above max, 1", id="range"),
        pytest.param(
            "min: 1, max: 4", "min: 2026-02-01, max: 2026-01-01", 18, "expectations[1].min", "above max", id="days"
        ),
        pytest.param("dose > 0", "dose >", 19, "expectations[2].condition", "within an expression", id="condition"),
        pytest.param("dose > 0", "(dose > 0 AND (", 19, "expectations[2].condition", "within", id="bracket open"),
        pytest.param(
            "merge, keys: [id]", "overwrite_partitions, where: day =", 15, "write.where", "within", id="where"
        ),
        pytest.param(
            "to: inbox}",
            "to: inbox, to_columns: [ide]}",
            20,
            "expectations[3].to_columns[0]",
            "of inbox",
            id="reference",
        ),
        pytest.param("6 * * ? *", "6 30 2 ? *", 21, "schedule.expression", "never fires", id="schedule"),
    ],
)
def test_contradiction_is_reported_with_its_line(before: str, after: str, line: int, field: str, message: str) -> None:
    assert before in DECLARED
    checked = check(DECLARED.replace(before, after, 1))
    assert checked.dataset is None
    matches = [mistake for mistake in checked.mistakes if (mistake.line, mistake.field) == (line, field)]
    assert matches, checked.findings
    assert any(re.search(message, mistake.message) for mistake in matches), matches


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("write: {", "steps: [{view: a, sql: 'SELECT *, 1 AS k FROM inbox'}]\nwrite: {", id="steps"),
        pytest.param("[id]}", "[ID]}", id="capitals"),
        pytest.param("dose > 0", "dose > 0 AND label:a.b[0]::int IS NOT NULL", id="SQL that only Spark knows"),
        pytest.param("dose > 0", "comment <> '' AND date > day", id="columns called as commands"),
        pytest.param("min: 1, max: 4", 'min: "9", max: "10"', id="bounds as the column's texts"),
        pytest.param("min: 1, max: 4", "min: 4, max: 4", id="one value"),
        pytest.param("sep: ", "SEP: ", id="an option in capitals"),
        pytest.param("sep: ", "fs.s3a.connection.maximum: ", id="an option of Hadoop"),
        pytest.param("delta.checkpointInterval: 10", "delta.feature.deletionVectors: supported", id="a feature"),
        pytest.param("delta.checkpointInterval: 10", "owner.team: north", id="somebody's own property"),
        pytest.param("{label: What it is}", "{older: What it was}\n  evolve_schema: true", id="a column of the table"),
        pytest.param("6 * * ? *", "6 29 2 ? *", id="a leap day"),
    ],
)
def test_possibly_correct_declarations_are_accepted(before: str, after: str) -> None:
    assert before in DECLARED
    assert check(DECLARED.replace(before, after, 1)).mistakes == []


def test_scd2_columns_must_be_different() -> None:
    text = DECLARED.replace("merge, keys: [id]", "scd2, keys: [id]").replace(
        "{label: What it is}", "{is_current: Whether it holds}"
    )
    assert check(text.replace("cluster_by: [day]", "partition_by: [is_current]")).findings == []


@pytest.mark.parametrize(
    ("expression", "fires"),
    [
        ("cron(0 6 31 4,6,9,11 ? *)", False),
        ("cron(0 6 30-31 FEB ? *)", False),
        ("cron(0 6 29 2 ? 2026,2027)", False),
        ("cron(0 6 29 2 ? 2026-2028)", True),
        ("cron(0 6 31 4,5 ? *)", True),
        ("cron(0 6 */30 2 ? *)", True),
        ("cron(0 6 25/5 2 ? *)", True),
        ("cron(0 6 L 2 ? *)", True),
        ("cron(0 6 ? 2 6#5 *)", True),
    ],
)
def test_schedule_that_never_fires_is_refused(expression: str, fires: bool) -> None:
    if fires:
        assert check_schedule(expression) == expression
    else:
        with pytest.raises(ValueError, match="never fires: no month"):
            check_schedule(expression)


@pytest.mark.parametrize("part", ["\\'", "/*", "`a", '\\"', "a<", "a int, ", "array<", "("])
def test_schema_of_any_length_is_parsed_in_linear_time(part: str) -> None:
    many = part * (LARGEST_BYTES // len(part))
    for text in (many, f"a int '{many}", f"a int /*{many}", f"a {many}"):
        with suppress(WrongDdl):
            columns_of(text)


ARGUMENTS = {
    "array": "<int>",
    "map": "<string,int>",
    "struct": "<a int, b: string>",
    **dict.fromkeys(("char", "character", "varchar"), "(3)"),
    **dict.fromkeys(("geometry", "geography"), "(4326)"),
}
RIGHT_DDL = [
    *(f"a {name}{ARGUMENTS.get(name, '')}" for name in sorted(TYPES)),
    "id INT NOT NULL COMMENT 'a, b <int', b string",
    "`a b` int, `c``d` decimal(12,2)",
    "a array<struct<x:int,y:map<string,array<int>>>>, b int",
    "a int -- c, d\n, b int",
    "a int /* x, y */, b int",
    "order int, select string",
    "1a int, _b int",
    "a struct<>, b int",
    "a interval day to second, b interval year to month",
    "a string collate UTF8_LCASE, b timestamp without time zone",
    "date date, timestamp timestamp",
    "a string collate UTF8_LCASE not null comment 'b', b varchar(3) comment 'c', c timestamp without time zone",
    "a interval month, b interval hour to minute comment '', c struct<d: int not null comment 'e'> not null",
    "`not` int comment 'x' 'y', a time(3), b array<interval day>, c map<string, decimal(3, 2)> comment 'd'",
]
WRONG_DDL = [
    *("a DECMAL(12,2)", "a int,, b int", "a int,", "a", "a text", "a array<strng>", "a decimal(1", "a.b int"),
    *(
        "a int b string",
        "a int not null b string",
        "a int comment 'x' b string",
        "a string\n`b c` int",
        "a interval b int",
    ),
    *("a struct<b int c int>", "a array<int b>", "a decimal(1) b int", "a int null", "a map<string, int> b int"),
]


@pytest.mark.spark
def test_schema_parser_agrees_with_spark(spark: "SparkSession") -> None:
    read: Any = spark.sparkContext._jvm.org.apache.spark.sql.types.StructType.fromDDL  # type: ignore[union-attr]

    def is_accepted(judge: Callable[[str], object], ddl: str, refusal: type[Exception]) -> bool:
        try:
            judge(ddl)
        except refusal:
            return False
        return True

    for ddl in [*RIGHT_DDL, *WRONG_DDL]:
        assert is_accepted(columns_of, ddl, WrongDdl) == is_accepted(read, ddl, Exception) == (ddl in RIGHT_DDL), ddl
    columns = columns_of("`a b` int, `c``d` decimal(12,2)")
    assert [column.name for column in columns] == ["a b", "c`d"]


@pytest.mark.spark
def test_all_options_of_spark_are_known(spark: "SparkSession") -> None:
    jvm: Any = spark.sparkContext._jvm

    def call_scala(scala_object: str, method: str) -> Any:
        gateway: Any = spark.sparkContext._gateway
        scala_class = jvm.java.lang.Class.forName(f"{scala_object}$")
        asking = scala_class.getMethod(method, gateway.new_array(jvm.java.lang.Class, 0))
        return asking.invoke(scala_class.getField("MODULE$").get(None), gateway.new_array(jvm.java.lang.Object, 0))

    catalyst, sources = "org.apache.spark.sql.catalyst", "org.apache.spark.sql.execution.datasources"
    for name, options in {
        "csv": f"{catalyst}.csv.CSVOptions",
        "json": f"{catalyst}.json.JSONOptions",
        "parquet": f"{sources}.parquet.ParquetOptions",
        "avro": "org.apache.spark.sql.avro.AvroOptions",
    }.items():
        known_names = {option.lower() for option in READERS[name]}
        for source in (options, f"{sources}.FileIndexOptions"):
            names = str(call_scala(source, "getAllOptions").mkString(" ")).lower().split()
            assert {option for option in names if "." not in option} <= known_names
