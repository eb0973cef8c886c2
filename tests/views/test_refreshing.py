"""Test the refresh of views: the rows of all audiences in one commit, whose change feed has real changes only."""

import itertools
import json
import shutil
from collections import Counter
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltaic.errors import InvalidParameter
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.file_sizing import RANGE, estimated_size, sort_into_ranges
from deltaic_pipeline.view_refresh.definition import Audience, SourceTable
from deltaic_pipeline.view_refresh.evaluation import Evaluation
from deltaic_pipeline.view_refresh.view_sql import read_sql
from deltalake import DeltaTable
from pyspark.sql import functions
from views.made import SampleView, Values, apply_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the socket for collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

EU: dict[str, Values] = {"p-eu": {"region": "EU"}}
US: dict[str, Values] = {"p-us": {"region": "US"}}
REGION_SQL = "SELECT id, upper(name) AS name, region FROM source WHERE region = current_recipient('region')"
COLUMNS = "id INT, name STRING, region STRING"
FOUR_ROWS = "INSERT INTO {source} VALUES (1, 'a', 'EU'), (2, 'b', 'US'), (3, 'c', 'EU'), (4, 'd', NULL)"


@pytest.fixture(scope="module")
def four_rows(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a source with four rows, of which tests use copies."""
    view = SampleView(spark, tmp_path_factory.mktemp("rows"), REGION_SQL)
    view.create_source(COLUMNS, FOUR_ROWS)
    return view.folder / "source"


def kinds(view: SampleView, version: int) -> Counter[str]:
    return Counter(kind for kind, _ in view.changes(version))


def check_refresh(view: SampleView, audiences: dict[str, Values]) -> Any:
    """Refresh, and check that rows equal the SQL's, and that the feed leads to them without superfluous changes."""
    before, at = view.rows(), view.version()
    result = view.refresh(audiences)
    assert view.rows() == view.expected(audiences)
    if result.version == at:
        assert view.rows() == before
        assert (result.inserted, result.updated, result.deleted) == (0, 0, 0)
        return result
    changes = view.changes(result.version)
    assert apply_changes(before, changes) == view.rows()
    gained = {row for kind, row in changes if kind in {"insert", "update_postimage"}}
    assert not gained & {row for kind, row in changes if kind in {"delete", "update_preimage"}}
    reported = result.inserted, result.updated, result.deleted
    counts = Counter(kind for kind, _ in changes)
    assert reported == (counts["insert"], counts["update_postimage"], counts["delete"])
    return result


def test_all_audiences_are_one_commit_without_audiences_in_paths(
    spark: "SparkSession", tmp_path: Path, four_rows: Path
) -> None:
    view = SampleView(spark, tmp_path, REGION_SQL)
    view.copy_source(four_rows)
    result = view.refresh(EU | US)
    assert (result.version, result.inserted, result.updated, result.deleted) == (0, 3, 0, 0)
    assert result.full_because == "it is the first refresh"
    assert result.rows == {"p-eu": 2, "p-us": 1}
    assert result.sources == {"shop.eu.orders": 1}
    assert view.rows() == view.expected(EU | US)
    view.run("UPDATE {source} SET name = 'n' WHERE id = 1")
    check_refresh(view, EU | US)
    logs = sorted((tmp_path / "view/_delta_log").glob("*.json"))
    lines = [json.loads(line) for log in logs for line in log.read_text().split("\n") if line]
    paths = [line[kind]["path"] for line in lines for kind in ("add", "cdc") if kind in line]
    assert {kind for line in lines for kind in ("add", "cdc") if kind in line} == {"add", "cdc"}
    assert not [path for path in paths if "p-eu" in path or "p-us" in path or "policy" in path]
    protocol = next(line["protocol"] for line in lines if "protocol" in line)
    assert not protocol.get("readerFeatures")
    detail: Any = spark.sql(f"SHOW TBLPROPERTIES delta.`{view.location}`").collect()
    properties = {row["key"]: row["value"] for row in detail}
    assert json.loads(properties["deltaic.view.sourceVersions"]) == {"shop.eu.orders": 2}
    assert properties["deltaic.view.refreshedAt"].startswith("20")


def test_feed_of_a_view_without_a_key_has_changed_rows_only(
    spark: "SparkSession", tmp_path: Path, four_rows: Path
) -> None:
    view = SampleView(spark, tmp_path, REGION_SQL)
    view.copy_source(four_rows)
    view.refresh(EU | US)
    view.run(
        # The view has upper(name), which is the same for row 1.
        "UPDATE {source} SET name = element_at(array('A', 'z', name), id), region = if(id = 3, 'US', region) "
        "WHERE id < 4",
        "INSERT INTO {source} VALUES (5, 'e', 'EU'), (6, 'f', 'EU'), (6, 'f', 'EU')",
        "DELETE FROM {source} WHERE id = 5",
    )
    result = check_refresh(view, EU | US)
    assert result.full_because == ""
    assert kinds(view, result.version) == {"insert": 4, "delete": 2}
    # One of two copies is removed.
    view.run("INSERT OVERWRITE {source} SELECT DISTINCT * FROM {source}")
    result = check_refresh(view, EU | US)
    assert (result.inserted, result.deleted) == (0, 1)
    assert kinds(view, result.version) == {"delete": 1}


def test_zeros_of_both_signs_are_equal(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(spark, tmp_path, "SELECT id, d, array(d) AS l, array(1) AS one FROM source")
    view.create_source("id INT, d DOUBLE", "INSERT INTO {source} VALUES (1, 0.0)")
    view.refresh(EU)
    before = view.version()
    view.run("UPDATE {source} SET d = double('-0.0')")
    assert view.refresh(EU).version == before


def test_rows_with_a_key_are_updated_within_one_audience_only(
    spark: "SparkSession", tmp_path: Path, four_rows: Path
) -> None:
    view = SampleView(spark, tmp_path, REGION_SQL, key=("ID",))
    view.copy_source(four_rows)
    view.refresh(EU | US)
    view.run("UPDATE {source} SET name = if(id = 1, 'z', name), region = if(id = 3, 'US', region) WHERE id IN (1, 3)")
    result = check_refresh(view, EU | US)
    assert kinds(view, result.version) == {"update_preimage": 1, "update_postimage": 1, "delete": 1, "insert": 1}
    view.run("INSERT INTO {source} VALUES (1, 'other', 'EU')")
    at = view.version()
    with pytest.raises(PipelineError, match="reduce them to one in the SQL"):
        view.refresh(EU | US)
    view.run("DELETE FROM {source} WHERE name = 'other'", "INSERT INTO {source} VALUES (7, 'a', 'EU'), (7, 'b', 'EU')")
    with pytest.raises(PipelineError, match=r"several rows of the view have the same key \(ID = \.\.\.\)"):
        view.refresh(EU | US)
    assert view.version() == at


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("STRING", ["'it''s \\\\ %'", "'\u017c'"]),
        # In CI, strings cover the selection of files.
        pytest.param(
            "TIMESTAMP",
            ["TIMESTAMP'1900-01-01 00:00:00Z'", "TIMESTAMP'2026-03-29 02:30:00.000001Z'"],
            marks=pytest.mark.long,
        ),
        pytest.param("BIGINT", ["-5", "9000000000"], marks=pytest.mark.long),
        pytest.param("DECIMAL(20, 5)", ["-0.5", "123456789.12345"], marks=pytest.mark.long),
        pytest.param("DATE", ["DATE'0001-01-01'", "DATE'9999-12-31'"], marks=pytest.mark.long),
    ],
)
def test_files_without_changed_keys_are_not_read(
    spark: "SparkSession", tmp_path: Path, kind: str, keys: list[str]
) -> None:
    view = SampleView(spark, tmp_path, "SELECT k, n FROM source", key=("K",))
    view.create_source(f"k {kind}, n INT")
    files: dict[str, set[Path]] = {}

    def new_files() -> set[Path]:
        """Return the view's files that have no known key yet."""
        return set(map(Path, DeltaTable(view.location).file_uris())).difference(*files.values())

    for key in sorted(keys, reverse=True):  # one file for each
        view.run(f"INSERT INTO {{source}} VALUES ({key}, 1)")  # noqa: S608 -- literals
        view.refresh(EU | US)
        files[key] = new_files()
    for key in keys:
        view.run(f"UPDATE {{source}} SET n = n + 1 WHERE k = {key}")  # noqa: S608 -- as above
        del files[key]
        [hidden_files] = files.values()
        for file in hidden_files:
            file.rename(file.with_suffix(".hidden"))
        result = view.refresh(EU | US)
        for file in hidden_files:
            file.with_suffix(".hidden").rename(file)
        files[key] = new_files()
        assert (result.updated, len(hidden_files), len(files[key])) == (2, 2, 2)
        assert view.rows() == view.expected(EU | US)


def test_rows_with_a_key_are_in_files_of_neighbors(spark: "SparkSession") -> None:
    rows = spark.range(500_000).selectExpr("pmod(hash(id), 2) AS part", "id", "repeat('x', 100) AS text").persist()
    try:
        rows.count()
        estimated = estimated_size(rows)
        ends = sort_into_ranges(rows, ["part", "id"]).groupBy(functions.spark_partition_id()).agg(
            functions.expr("min(struct(part, id))"), functions.expr("max(struct(part, id))")
        )  # fmt: skip
        ranges = sorted((tuple(row[1]), tuple(row[2])) for row in ends.collect())
    finally:
        rows.unpersist()
    assert len(ranges) == ceil(estimated / RANGE) > 2
    assert list(itertools.chain(*ranges)) == sorted(itertools.chain(*ranges))


@pytest.mark.long  # in CI: test_rows_with_a_key_are_in_files_of_neighbors, test_files_without_changed_keys_are_not_read
def test_files_keep_their_ranges_of_keys_after_changes(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(spark, tmp_path, "SELECT * FROM source", key=("id",))
    view.create_source("id INT, n INT, text STRING")
    view.run("INSERT INTO {source} SELECT id, 0, repeat('x', 8000) FROM range(0, 12000, 2)")
    view.refresh(EU)

    def ranges() -> list[tuple[int, int]]:
        """Return the first and the last key of each file."""
        files = DeltaTable(view.location).file_uris()
        ids = [pq.ParquetFile(file).read(columns=["id"])["id"].to_pylist() for file in files]
        return sorted((min(file_ids), max(file_ids)) for file_ids in ids)

    def changed_files(audiences: dict[str, Values], *statements: str) -> int:
        """Change the source, refresh, and return the number of rewritten files."""
        view.run(*statements)
        result = view.refresh(audiences)
        log = (Path(view.location) / f"_delta_log/{result.version:020}.json").read_text()
        totals = ["count(*)", "sum(id)", "sum(n)", "sum(length(text))"]
        source_rows, view_rows = (spark.read.format("delta").load(f"{tmp_path}/{name}") for name in ("source", "view"))
        for name in audiences:
            rows = view_rows.where(f"{AUDIENCE_COLUMN} = '{name}'").selectExpr(*totals).first()
            assert rows == source_rows.selectExpr(*totals).first()
        return sum("remove" in json.loads(line) for line in log.split("\n") if line)

    first = ranges()
    assert len(first) > 2
    changes = "MERGE INTO {source} old USING (SELECT id FROM range(1, 12000, 100)) new ON old.id = new.id + 1"
    changes += " WHEN MATCHED AND new.id % 400 = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 1"
    changes += " WHEN NOT MATCHED THEN INSERT (id, n, text) VALUES (new.id, 0, 'new')"
    assert changed_files(EU, changes) == len(first)
    after = ranges()
    assert all(before[1] < following[0] for before, following in itertools.pairwise(after)), after
    assert len(first) - 1 <= len(after) <= len(first) + 1  # a single file would satisfy the previous line
    assert changed_files(EU, "UPDATE {source} SET n = 2 WHERE id BETWEEN 100 AND 300") == 1


def depends_on_time(spark: "SparkSession", condition: str, since: str) -> bool:
    """Return whether a view's SQL depends on the time of the query."""
    session = spark.newSession()
    source = session.sql("SELECT 1 AS id, DATE'2020-01-01' AS d")
    sql = read_sql(
        "SELECT id FROM source WHERE CONDITION OR d = current_recipient('since')".replace("CONDITION", condition)
    )
    return Evaluation(session, sql, {}).asks_for_time(source, [Audience("p", {"since": since})])


@pytest.mark.parametrize(
    "condition",
    [
        "d < current_date",
        "d < CAST('to' 'day' AS DATE)",
        "d < CAST(concat('to', 'day') AS DATE)",
        "d < to_date(lower('TODAY'))",
        "d < 'tomor' || 'row'",
        "id IN (SELECT id FROM source WHERE d < try_cast(reverse('yadot') AS DATE))",
        "EXISTS (SELECT 1 FROM source WHERE d < now())",
    ],
)
def test_any_use_of_the_time_is_recognized(spark: "SparkSession", condition: str) -> None:
    assert depends_on_time(spark, condition, "2020-01-01")


def test_date_of_a_recipient_depends_on_time_only_if_it_is_today(spark: "SparkSession", tmp_path: Path) -> None:
    assert not depends_on_time(spark, "d > DATE'2020-01-01'", "2020-01-01")
    assert depends_on_time(spark, "d > DATE'2020-01-01'", "today")
    view = SampleView(
        spark, tmp_path, "SELECT max(d) AS d FROM source WHERE d < CAST(current_recipient('until') AS DATE)"
    )
    view.create_source("d DATE", "INSERT INTO {source} VALUES ('2020-01-01'), ('2100-01-01')")
    audiences: dict[str, Values] = {"p": {"until": "today"}}
    view.refresh(audiences)
    assert view.refresh(audiences).full_because == "the SQL depends on the current time"
    assert view.rows() == view.expected(audiences)


@pytest.mark.parametrize("user", ["current_user", "user", "SESSION_USER", "current_database()"])
def test_user_who_runs_the_refresh_is_refused_as_a_column(spark: "SparkSession", user: str) -> None:
    session = spark.newSession()
    evaluation = Evaluation(session, read_sql("SELECT a, USER AS u FROM source".replace("USER", user)), {})
    with pytest.raises(InvalidParameter, match="who runs the refresh"):
        evaluation.columns(session.sql("SELECT 1 AS a"))


def test_column_named_user_is_accepted(spark: "SparkSession") -> None:
    session = spark.newSession()
    evaluation = Evaluation(session, read_sql("SELECT user FROM source"), {})
    assert evaluation.columns(session.sql("SELECT 1 AS user")).columns[1:] == ["user"]


def test_masks_lists_and_expressions_are_computed_in_one_pass(
    spark: "SparkSession", tmp_path: Path, four_rows: Path
) -> None:
    view = SampleView(
        spark,
        tmp_path,
        "SELECT id, CASE WHEN region = current_recipient('region') THEN name ELSE left(name, 1) END AS name, "
        "current_recipient('region') AS mine FROM source WHERE region IN current_recipient('all') OR id = 4",
    )
    view.copy_source(four_rows)
    audiences: dict[str, Values] = {
        "p1": {"region": "EU", "all": ("EU", "US")},
        "p2": {"region": 'it\'s \\ "quoted"', "all": "US"},
    }
    view.refresh(audiences)
    assert view.rows() == view.expected(audiences)
    view.run("UPDATE {source} SET name = 'zz', region = 'US' WHERE id IN (1, 4)")
    assert check_refresh(view, audiences).full_because == ""
    # A recipient without a property, or with a list instead of a value, sees no rows, in spite of the `OR`.
    incomplete: dict[str, Values] = {"p3": {"region": "EU"}, "p4": {"region": ("EU",), "all": "EU"}, "p5": {"all": ()}}
    result = view.refresh(audiences | incomplete)
    assert [result.rows[name] for name in incomplete] == [0, 0, 0]


@pytest.mark.long
def test_aggregated_rows_are_computed_in_full_and_written_as_differences(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(
        spark,
        tmp_path,
        "SELECT region, count(*) AS n, max(id) AS latest FROM source "
        "WHERE region = current_recipient('region') GROUP BY region",
        key=("region",),
    )
    view.create_source(COLUMNS, FOUR_ROWS)
    view.refresh(EU | US)
    view.run("DELETE FROM {source} WHERE id = 3")
    result = check_refresh(view, EU | US)
    assert (result.updated, result.full_because) == (1, "the SQL aggregates")
    at = view.version()
    view.run("UPDATE {source} SET name = 'same'")
    assert view.refresh(EU | US).version == view.version() == at


@pytest.mark.long
def test_joins_follow_all_tables_that_they_read(spark: "SparkSession", tmp_path: Path) -> None:
    sql = (
        "SELECT source.id, t.label FROM source LEFT JOIN `shop.x`.eu.labels t ON t.id = source.id "
        "WHERE source.region = current_recipient('region')"
    )
    labels = f"{tmp_path}/labels"
    view = SampleView(spark, tmp_path, sql, others={"shop.x.eu.labels": SourceTable("shop.x.eu.labels", labels)})
    view.create_source(COLUMNS, FOUR_ROWS)
    view.run(f"CREATE TABLE delta.`{labels}` USING delta AS SELECT 1 AS id, 'one' AS label")
    view.refresh(EU | US)
    view.run(f"INSERT INTO delta.`{labels}` VALUES (3, 'three')")  # noqa: S608
    result = view.refresh(EU | US)
    assert result.sources == {"shop.eu.orders": 1, "shop.x.eu.labels": 1}
    assert result.full_because == "the SQL reads several tables"
    assert sorted(kind for kind, _ in view.changes(result.version)) == ["delete", "insert"]
    view.others = {}
    with pytest.raises(PipelineError, match=r"the SQL reads shop\.x\.eu\.labels, which is not shared"):
        view.refresh(EU | US)


@pytest.mark.long
def test_columns_can_be_added_but_not_removed(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(spark, tmp_path, "SELECT * FROM source WHERE region = current_recipient('region')", key=("id",))
    view.create_source(COLUMNS, FOUR_ROWS)
    view.refresh(EU | US)
    view.run(
        "ALTER TABLE {source} ADD COLUMNS (extra STRUCT<x: INT>)",
        "INSERT INTO {source} VALUES (5, 'e', 'EU', struct(7))",
    )
    result = view.refresh(EU | US)
    assert result.full_because == "the source's columns have changed"
    assert (result.inserted, result.updated, result.deleted) == (1, 0, 0)
    assert view.rows() == view.expected(EU | US)
    view.sql = "SELECT id, region, extra FROM source WHERE region = current_recipient('region')"
    with pytest.raises(PipelineError, match=r"the column name \(string\) is missing.*create a new view"):
        view.refresh(EU | US)
    view.sql = "SELECT *, id * 2 AS twice FROM source WHERE region = current_recipient('region')"
    result = view.refresh(EU | US)
    assert result.full_because == "its SQL, its key or its source has changed"
    assert view.rows() == view.expected(EU | US)
    view.run("DELETE FROM {source} WHERE id = 1")
    assert check_refresh(view, EU | US).full_because == ""


@pytest.mark.long
def test_changes_without_a_feed_are_found_by_comparison(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(spark, tmp_path, REGION_SQL)
    view.create_source(COLUMNS, FOUR_ROWS)
    view.refresh(EU)
    off, on = (
        "ALTER TABLE {source} SET TBLPROPERTIES (delta.enableChangeDataFeed = " + is_ + ")" for is_ in ("false", "true")
    )
    view.run(off, "UPDATE {source} SET name = 'z' WHERE id = 1")
    result = check_refresh(view, EU)
    assert "has no change feed" in result.full_because
    view.run("UPDATE {source} SET name = 'y' WHERE id = 1", on)
    result = check_refresh(view, EU)
    assert "change feed is no longer complete" in result.full_because
    shutil.rmtree(tmp_path / "source")
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    view.create_source(COLUMNS, FOUR_ROWS)
    assert "another" in check_refresh(view, EU).full_because


@pytest.mark.long
def test_source_with_all_kinds_of_columns_and_deletion_vectors(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(
        spark,
        tmp_path,
        "SELECT id, s, m, xs, CAST(d AS DECIMAL(9, 2)) AS d, t, f, `odd name` AS odd "
        "FROM source WHERE region = current_recipient('region')",
    )
    view.create_source(
        "id INT, region STRING, s STRUCT<a: INT, b: MAP<STRING, INT>>, m MAP<STRING, STRUCT<x: INT>>, "
        "xs ARRAY<INT>, d DECIMAL(20, 5), t TIMESTAMP, f DOUBLE, `odd name` STRING",
        properties=", 'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'",
    )
    row = (
        "({id}, 'EU', named_struct('a', 1, 'b', map('k', 1, 'l', 2)), map('q', named_struct('x', {x})), "
        "array(1, NULL), 1.5, TIMESTAMP'2026-01-02 03:04:05.000006Z', double('NaN'), NULL)"
    )
    view.run(f"INSERT INTO {{source}} VALUES {', '.join(row.format(id=id_, x=1) for id_ in (1, 1, 2, 3))}")  # noqa: S608
    view.refresh(EU)
    assert view.rows() == view.expected(EU)
    view.run(
        "UPDATE {source} SET m = map('q', named_struct('x', 2)) WHERE id = 2",
        "UPDATE {source} SET s = named_struct('a', 1, 'b', map('l', 2, 'k', 1)) WHERE id = 1",
        "DELETE FROM {source} WHERE id = 3",
    )
    result = check_refresh(view, EU)
    assert (result.inserted, result.deleted) == (1, 2)


def test_error_for_a_value_that_spark_cannot_cast_names_view_and_property(
    spark: "SparkSession", tmp_path: Path, four_rows: Path
) -> None:
    view = SampleView(spark, tmp_path, "SELECT id FROM source WHERE id > current_recipient('least')")
    view.copy_source(four_rows)
    with pytest.raises(
        PipelineError, match=r"view shop\.eu\.mine: the recipients' property 'least'.*CAST_INVALID_INPUT"
    ):
        view.refresh({"p1": {"least": "2"}, "p2": {"least": "many"}})
    assert not list(Path(view.location).rglob("*.json"))


def test_errors_that_only_spark_finds_are_refused(spark: "SparkSession", tmp_path: Path, four_rows: Path) -> None:
    view = SampleView(spark, tmp_path, REGION_SQL)
    view.copy_source(four_rows)
    for sql, message in (
        ("SELECT NULL AS x FROM source", "no column of type void"),
        ("SELECT id, id FROM source", "two columns named id"),
        ("SELECT missing FROM source", "missing"),
    ):
        view.sql = sql
        with pytest.raises((PipelineError, InvalidParameter), match=message):
            view.refresh(EU)
    view.sql = "SELECT '${env:HOME}' AS home FROM source WHERE id = 1"
    view.refresh({"p": {}})
    assert view.rows() == Counter(["{'_deltaic_policy': 'p', 'home': '${env:HOME}'}"])
    over = SampleView(spark, tmp_path / "over", "SELECT * FROM source")
    spark.sql(f"CREATE TABLE {over.source} SHALLOW CLONE delta.`{view.location}`")
    with pytest.raises(InvalidParameter, match="itself a view"):
        over.refresh({"p": {}})


def test_list_that_is_too_long_for_columns_is_a_literal(spark: "SparkSession", tmp_path: Path) -> None:
    view = SampleView(
        spark, tmp_path, "SELECT id FROM source WHERE region IN current_recipient('all') AND d <= current_date"
    )
    view.create_source("id INT, region STRING, d DATE", "INSERT INTO {source} VALUES (1, 'r7', DATE'2026-01-01')")
    audiences: dict[str, Values] = {"p": {"all": tuple(f"r{number}" for number in range(101))}}
    view.refresh(audiences)
    assert view.rows() == view.expected(audiences)
    at = view.version()
    result = view.refresh(audiences)
    assert (result.full_because, result.version) == ("the SQL depends on the current time", at)
