"""Test SQL of steps, `publish --sql` and views: queries work, and reads beyond their tables are refused."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic.errors import DeltaicError
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.expectations import Expectations
from deltaic_datasets.run.sql_steps import read_dataset
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.publish import transform
from deltaic_pipeline.spark.sql_rules import drop_external_functions
from deltaic_pipeline.table.table_properties import check_new_properties
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.view_refresh.definition import Audience
from deltaic_pipeline.view_refresh.evaluation import Evaluation
from deltaic_pipeline.view_refresh.view_sql import read_sql
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

RUNS = "SELECT TRANSFORM(a) USING 'touch FOLDER/ran' AS (b) FROM source"
COMMANDS = (
    "INSERT OVERWRITE DIRECTORY 'file:FOLDER' USING csv SELECT 1",
    "WITH q AS (SELECT 1) INSERT OVERWRITE DIRECTORY 'file:FOLDER' USING csv SELECT * FROM q",
    "FROM source INSERT INTO a SELECT * INSERT INTO b SELECT *",
    "INSERT INTO default.kept SELECT 9",
    "MERGE INTO default.kept USING source ON true WHEN MATCHED THEN DELETE",
    "UPDATE default.kept SET a = 9",
    "DELETE FROM delta.`FOLDER/table`",
    "TRUNCATE TABLE default.kept",
    "OPTIMIZE delta.`FOLDER/table`",
    "VACUUM delta.`FOLDER/table`",
    "CREATE TABLE t USING csv LOCATION 'file:FOLDER' AS SELECT 1 AS a",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "CREATE TEMPORARY FUNCTION f AS 'org.example.F' USING JAR 'file:FOLDER/kept'",
    "CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN 1",
    "LOAD DATA INPATH 'file:FOLDER/kept' INTO TABLE default.kept",
    "DROP VIEW source",
    "DROP TABLE default.kept",
    "USE default",
    "SET spark.sql.runSQLOnFiles=true",
    "SET VAR x = 1",
    "DECLARE x INT DEFAULT 1",
    "RESET",
    "ADD JAR 'file:FOLDER/kept'",
    "CACHE TABLE source",
    "REFRESH TABLE source",
    "EXPLAIN SELECT 1",
    "SHOW TABLES",
    "DESCRIBE source",
    "DESCRIBE QUERY SELECT 1",
    "CALL system.gone()",
    "EXECUTE IMMEDIATE 'DROP VIEW source'",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN DROP VIEW source; END",
    "RUNS",
    "SELECT * FROM (RUNS)",
    "SELECT 1 FROM source WHERE EXISTS (RUNS)",
    "WITH q AS (RUNS) SELECT q.* FROM q, source",
    "SELECT a FROM source ORDER BY (RUNS)",
    "SELECT sum(a) OVER w FROM source WINDOW w AS (ORDER BY EXISTS (RUNS))",
    "FROM source |> EXTEND (RUNS) AS c",
)
"""Statements that write, run programs, or change or show the session."""

BEYOND = (
    "SELECT * FROM default.kept",
    "SELECT * FROM spark_catalog.default.kept",
    "SELECT source.a FROM source, kept",
    "SELECT a FROM source UNION ALL SELECT a FROM IDENTIFIER('default.' || 'kept')",
    "SELECT a FROM source WHERE a IN (SELECT a FROM kept)",
    "SELECT (SELECT max(a) FROM kept) AS a FROM source",
    "SELECT t.a FROM source, LATERAL (SELECT a FROM kept) AS t",
    "WITH source AS (SELECT a FROM kept) SELECT * FROM source",
    "WITH q AS (WITH r AS (SELECT a FROM kept) SELECT * FROM r) SELECT q.a FROM q, source",
    "SELECT count(*) OVER w AS n FROM source WINDOW w AS (PARTITION BY (SELECT max(a) FROM kept))",
    "FROM source |> JOIN default.kept USING (a)",
    "FROM source |> WHERE EXISTS (TABLE default.kept)",
    "SELECT a FROM source UNION ALL SELECT a FROM STREAM default.kept",
    "SELECT a FROM source UNION ALL SELECT a FROM table_changes('default.kept', 0)",
    "SELECT a FROM source UNION ALL SELECT a FROM table_changes_by_path('FOLDER/table', 0)",
    "SELECT s.a FROM source AS s, default.kept VERSION AS OF 0",
    "SELECT * FROM text.`FOLDER/kept`",
    "SELECT * FROM csv.`FOLDER/kept`",
    "SELECT * FROM delta.`FOLDER/table`",
    "SELECT * FROM IDENTIFIER('delta.`FOLDER/table`')",
    "WITH q AS (SELECT * FROM text.`FOLDER/kept`) SELECT q.* FROM q, source",
    "SELECT 1 FROM source WHERE EXISTS (SELECT * FROM binaryFile.`FOLDER/kept`)",
    "SELECT source.a FROM source, read_files('FOLDER/kept')",
    "SELECT source.a FROM source, read_kafka('127.0.0.1:9')",
    "SELECT source.a FROM source, information_schema.tables",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME') AS a FROM source",
    "SELECT java_method('java.lang.System', 'getenv', 'HOME') AS a FROM source",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS a FROM source",
    "SELECT `reflect`('java.lang.System', 'getenv', 'HOME') AS a FROM source",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME') AS a FROM source",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME') AS a FROM source",
    "SELECT from_avro(X'02', '{\"type\": \"int\"}', map('avroSchemaUrl', 'file:FOLDER/kept')) AS a FROM source",
    "SELECT schema_of_avro('{\"type\": \"int\"}', map('avroSchemaUrl', 'file:FOLDER/kept')) AS a FROM source",
    "SELECT from_protobuf(X'02', 'M', 'FOLDER/kept') AS a FROM source",
    "SELECT from_xml('<a/>', 'a INT', map(concat('rowValidation', 'XSDPath'), 'FOLDER/kept')) AS a FROM source",
    "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', 'FOLDER/kept')) AS a FROM source",
    "SELECT xpath_string('<!DOCTYPE a SYSTEM \"file:FOLDER/kept\"><a>&e;</a>', 'a') AS a FROM source",
    "SELECT xpath('<!DOCTYPE a SYSTEM \"http://127.0.0.1:9/\"><a/>', 'a') AS a FROM source",
    "SELECT session.x AS a FROM source",
    "SELECT ${env:HOME} AS a FROM source",
    "SELECT a FROM source; SELECT a FROM source",
    "SELECT a FROM source; DROP VIEW source",
)
"""Queries that read other tables, files, the machine or the session, and multiple statements."""

QUERIES = (
    "SELECT a FROM source",
    "FROM source SELECT a",
    "(SELECT a FROM source);",
    "SELECT a /* ; DROP VIEW source */ FROM source -- ; DROP VIEW source",
    "SELECT a, '${env:HOME}' AS b FROM source WHERE '${env:HOME}' LIKE '${%'",
    "WITH q AS (SELECT a FROM source) SELECT * FROM q",
    "WITH q AS (SELECT a FROM source), r AS (SELECT a FROM q) SELECT q.a FROM q JOIN r USING (a)",
    "WITH RECURSIVE r(n) AS (SELECT a FROM source UNION ALL SELECT n + 1 FROM r WHERE n < 1) SELECT * FROM r",
    "SELECT a FROM source UNION SELECT 1 EXCEPT SELECT 2",
    "SELECT max(a) OVER w AS m FROM source WINDOW w AS (PARTITION BY a)",
    "SELECT e FROM source LATERAL VIEW explode(array(a)) AS e",
    "SELECT transform(array(a), x -> x + 1) AS l FROM source WHERE a IN (SELECT a FROM source)",
    "SELECT * FROM (SELECT a, a AS b FROM source) PIVOT (sum(a) FOR b IN (1))",
    "SELECT /*+ BROADCAST(t) */ source.a FROM source JOIN source AS t USING (a)",
    "FROM source |> WHERE a > 0 |> AGGREGATE count(*) AS n",
    "SELECT /*+ REPARTITION(1) */ a FROM source",
    "SELECT from_json(to_json(struct(a)), 'a INT').a AS a FROM source",
    "SELECT a FROM source WHERE EXISTS (SELECT 1 FROM source AS t WHERE t.a = source.a)",
)
QUERIES_OF_STEPS = (
    "TABLE source",
    "SELECT * FROM range(1)",
    "SELECT * FROM explode(array(1))",
    "SELECT * FROM IDENTIFIER('source')",
    "SELECT IDENTIFIER('a') FROM IDENTIFIER('sour' || 'ce') TABLESAMPLE (1 ROWS)",
    "SELECT a, current_user() AS u FROM source",
)
"""Queries that a view refuses, because a refresh must find its tables, and the same rows each time."""

DOORS = ("a dataset", "publish --sql", "a view")


def run_query(door: str, session: "SparkSession", folder: Path, sql: str) -> "DataFrame":
    rows = session.range(1, 2).selectExpr("id AS a")
    match door:
        case "a dataset":
            source = json_source(folder, "rows", [{"a": 1}], "a BIGINT")
            steps = [{"view": "step", "sql": sql}]
            return read_dataset(session, run_of(dataset("/tmp/none", sources={"source": source}, steps=steps))).rows
        case "publish --sql":
            return transform(rows, sql)
        case _:
            return Evaluation(session, read_sql(sql), {}).rows(rows, [Audience("p", {})])


@pytest.fixture(scope="module")
def folder(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a file and a table that no SQL may read or change."""
    folder = tmp_path_factory.mktemp("beyond")
    (folder / "kept").write_text("secret")
    fed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"CREATE TABLE default.kept (a INT) USING delta LOCATION '{folder}/table' {fed}")
    spark.sql("INSERT INTO default.kept VALUES (7)")
    yield folder
    assert [row["a"] for row in spark.table("default.kept").collect()] == [7]
    spark.sql("DROP TABLE default.kept")


@pytest.fixture
def session(spark: "SparkSession") -> "SparkSession":
    session = spark.newSession()
    drop_external_functions(session)
    return session


@pytest.mark.parametrize("text", [*COMMANDS, *BEYOND])
def test_commands_and_reads_beyond_the_tables_are_refused(
    session: "SparkSession", folder: Path, tmp_path: Path, text: str
) -> None:
    for door in DOORS:
        with pytest.raises((DeltaicError, AnalysisException)) as refusal:
            run_query(door, session, tmp_path, text.replace("RUNS", RUNS).replace("FOLDER", str(folder)))
        message = str(refusal.value)
        assert "secret" not in message
        if text in COMMANDS and door != "a view":
            assert "nothing that writes" in message, door
    assert sorted(path.name for path in folder.iterdir()) == ["kept", "table"]
    assert (folder / "kept").read_text() == "secret"
    assert [row["a"] for row in session.table("source").collect()] == [1]


@pytest.mark.parametrize("text", QUERIES)
def test_allowed_queries_return_rows(session: "SparkSession", tmp_path: Path, text: str) -> None:
    for door in DOORS:
        assert len(run_query(door, session, tmp_path, text).collect()) == 1, door


@pytest.mark.parametrize("text", QUERIES_OF_STEPS)
def test_queries_only_for_steps_are_refused_in_views(session: "SparkSession", tmp_path: Path, text: str) -> None:
    for door in DOORS[:2]:
        assert len(run_query(door, session, tmp_path, text).collect()) == 1, door
    with pytest.raises(DeltaicError):
        run_query("a view", session, tmp_path, text)


def test_view_is_checked_by_spark_too(session: "SparkSession", folder: Path) -> None:
    assert folder.exists()
    forged = replace(read_sql("SELECT a FROM source"), parts=("SELECT a FROM default.kept",))
    with pytest.raises(PipelineError, match="neither a source nor a step"):
        Evaluation(session, forged, {}).rows(session.range(1), [Audience("p", {})])


QUERY = "a IN (SELECT a FROM default.kept)"


def test_conditions_cannot_contain_queries(session: "SparkSession", folder: Path, tmp_path: Path) -> None:
    source = json_source(tmp_path, "rows", [{"a": 1}], "a BIGINT")

    def refused(**parts: Any) -> None:
        run = run_of(dataset(f"{tmp_path}/table", sources={"source": source}, **parts))
        with pytest.raises(PipelineError, match=r"dataset\.yaml|a condition uses the columns of one row"):
            plan_run(session, run)

    assert folder.exists()
    refused(expectations=[{"expect": "sql", "condition": QUERY}])
    refused(write={"mode": "overwrite_partitions", "where": QUERY}, target={"partition_by": ["a"]})
    refused(target={"properties": {"delta.constraints.few": QUERY}})
    rows = session.createDataFrame([(1,)], "a INT")
    expected = run_of(
        dataset("/tmp/none", sources={"source": source}, expectations=[{"expect": "sql", "condition": QUERY}])
    )
    with pytest.raises(PipelineError, match="cannot contain a SELECT"):
        Expectations(expected.dataset.expectations).add_flags(rows)
    with pytest.raises(PipelineError, match="cannot contain a SELECT"):
        check_new_properties(session, DeltaTarget(f"{tmp_path}/new", properties={"delta.constraints.few": QUERY}))
