"""A view's refresh: every audience's rows, in one commit, whose change feed shows what changed and no more."""

import itertools
import json
import shutil
from collections import Counter
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltaic.errors import InvalidParameter
from deltaic.partition_filters.audiences import AUDIENCE_COLUMN
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.table.file_sizing import RANGE, estimated_size, in_ranges
from deltaic_pipeline.view_refresh.definition import Audience, SourceTable
from deltaic_pipeline.view_refresh.evaluation import Evaluation
from deltaic_pipeline.view_refresh.view_sql import read_sql
from pyspark.sql import functions
from views.made import Made, Values, applied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the socket over which rows are collected to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

EU: dict[str, Values] = {"p-eu": {"region": "EU"}}
US: dict[str, Values] = {"p-us": {"region": "US"}}
OF_REGION = "SELECT id, upper(name) AS name, region FROM source WHERE region = current_recipient('region')"
COLUMNS = "id INT, name STRING, region STRING"
FOUR = "INSERT INTO {source} VALUES (1, 'a', 'EU'), (2, 'b', 'US'), (3, 'c', 'EU'), (4, 'd', NULL)"


def kinds(made: Made, version: int) -> Counter[str]:
    return Counter(kind for kind, _ in made.changes(version))


def refreshed_exactly(made: Made, audiences: dict[str, Values]) -> Any:
    """Refresh, and hold that rows are the SQL's, that the feed leads to them and changes nothing twice."""
    before, at = made.rows(), made.version()
    found = made.refresh(audiences)
    assert made.rows() == made.expected(audiences)
    if found.version == at:
        assert made.rows() == before
        assert (found.inserted, found.updated, found.deleted) == (0, 0, 0)
        return found
    changes = made.changes(found.version)
    assert applied(before, changes) == made.rows()
    gained = {row for kind, row in changes if kind in {"insert", "update_postimage"}}
    assert not gained & {row for kind, row in changes if kind in {"delete", "update_preimage"}}
    told = found.inserted, found.updated, found.deleted
    counts = Counter(kind for kind, _ in changes)
    assert told == (counts["insert"], counts["update_postimage"], counts["delete"])
    return found


def test_all_policies_are_one_commit_whose_paths_tell_no_policy(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, OF_REGION)
    made.source_of(COLUMNS, FOUR)
    found = made.refresh(EU | US)
    assert (found.version, found.inserted, found.updated, found.deleted) == (0, 3, 0, 0)
    assert found.full_because == "it is the first refresh"
    assert found.rows == {"p-eu": 2, "p-us": 1}
    assert found.sources == {"shop.eu.orders": 1}
    assert made.rows() == made.expected(EU | US)
    made.run("UPDATE {source} SET name = 'n' WHERE id = 1")
    refreshed_exactly(made, EU | US)
    logs = sorted((tmp_path / "view/_delta_log").glob("*.json"))
    lines = [json.loads(line) for log in logs for line in log.read_text().split("\n") if line]
    paths = [line[kind]["path"] for line in lines for kind in ("add", "cdc") if kind in line]
    assert {kind for line in lines for kind in ("add", "cdc") if kind in line} == {"add", "cdc"}
    assert not [path for path in paths if "p-eu" in path or "p-us" in path or "policy" in path]
    protocol = next(line["protocol"] for line in lines if "protocol" in line)
    assert not protocol.get("readerFeatures")
    detail: Any = spark.sql(f"SHOW TBLPROPERTIES delta.`{made.location}`").collect()
    told = {row["key"]: row["value"] for row in detail}
    assert json.loads(told["deltaic.view.sourceVersions"]) == {"shop.eu.orders": 2}
    assert told["deltaic.view.refreshedAt"].startswith("20")


def test_the_feed_of_a_view_without_a_key_holds_what_changed(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, OF_REGION)
    made.source_of(COLUMNS, FOUR)
    made.refresh(EU | US)
    made.run(
        "UPDATE {source} SET name = 'A' WHERE id = 1",  # upper() makes the same of it
        "UPDATE {source} SET name = 'z' WHERE id = 2",
        "UPDATE {source} SET region = 'US' WHERE id = 3",
        "INSERT INTO {source} VALUES (5, 'e', 'EU'), (6, 'f', 'EU'), (6, 'f', 'EU')",
        "DELETE FROM {source} WHERE id = 5",
    )
    found = refreshed_exactly(made, EU | US)
    assert found.full_because == ""
    assert kinds(made, found.version) == {"insert": 4, "delete": 2}
    # All but one of the copies go.
    made.run("INSERT OVERWRITE {source} SELECT DISTINCT * FROM {source}")
    found = refreshed_exactly(made, EU | US)
    assert (found.inserted, found.deleted) == (0, 1)
    assert kinds(made, found.version) == {"delete": 1}


def test_zeros_of_both_signs_are_alike(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, "SELECT id, d, array(d) AS l, array(1) AS one FROM source")
    made.source_of("id INT, d DOUBLE", "INSERT INTO {source} VALUES (1, 0.0)")
    made.refresh(EU)
    before = made.version()
    made.run("UPDATE {source} SET d = double('-0.0')")
    assert made.refresh(EU).version == before


def test_with_a_key_a_row_is_updated_and_never_across_policies(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, OF_REGION, key=("ID",))
    made.source_of(COLUMNS, FOUR)
    made.refresh(EU | US)
    made.run("UPDATE {source} SET name = 'z' WHERE id = 1", "UPDATE {source} SET region = 'US' WHERE id = 3")
    found = refreshed_exactly(made, EU | US)
    assert kinds(made, found.version) == {"update_preimage": 1, "update_postimage": 1, "delete": 1, "insert": 1}
    made.run("INSERT INTO {source} VALUES (1, 'other', 'EU')")
    at = made.version()
    with pytest.raises(PipelineError, match="reduce them to one in the SQL"):
        made.refresh(EU | US)
    made.run("DELETE FROM {source} WHERE name = 'other'", "INSERT INTO {source} VALUES (7, 'a', 'EU'), (7, 'b', 'EU')")
    with pytest.raises(PipelineError, match=r"several rows of the view have the same key \(ID = \.\.\.\)"):
        made.refresh(EU | US)
    assert made.version() == at


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("TIMESTAMP", ["TIMESTAMP'1900-01-01 00:00:00Z'", "TIMESTAMP'2026-03-29 02:30:00.000001Z'"]),
        ("STRING", ["'it''s \\\\ %'", "'\u017c'"]),
        pytest.param("BIGINT", ["-5", "9000000000"], marks=pytest.mark.long),
        pytest.param("DECIMAL(20, 5)", ["-0.5", "123456789.12345"], marks=pytest.mark.long),
        pytest.param("DATE", ["DATE'0001-01-01'", "DATE'9999-12-31'"], marks=pytest.mark.long),
    ],
)
def test_files_without_keys_that_change_are_not_looked_into(
    spark: "SparkSession", tmp_path: Path, kind: str, keys: list[str]
) -> None:
    made = Made(spark, tmp_path, "SELECT k, n FROM source", key=("K",))
    made.source_of(f"k {kind}, n INT")
    for key in sorted(keys, reverse=True):  # a file each
        made.run(f"INSERT INTO {{source}} VALUES ({key}, 1)")  # noqa: S608 -- literals
        made.refresh(EU | US)
    for key in keys:
        made.run(f"UPDATE {{source}} SET n = n + 1 WHERE k = {key}")  # noqa: S608 -- as above
        others = f"SELECT DISTINCT _metadata.file_path FROM delta.`{made.location}` WHERE k <> {key}"  # noqa: S608
        away = [Path(row[0].removeprefix("file:")) for row in spark.sql(others).collect()]
        for file in away:
            file.rename(file.with_suffix(".away"))
        found = made.refresh(EU | US)
        for file in away:
            file.with_suffix(".away").rename(file)
        assert (found.updated, len(away)) == (2, 2)
        assert made.rows() == made.expected(EU | US)


def test_rows_with_a_key_lie_in_files_of_neighbours(spark: "SparkSession") -> None:
    rows = spark.range(500_000).selectExpr("pmod(hash(id), 2) AS part", "id", "repeat('x', 100) AS text").persist()
    try:
        rows.count()
        estimated = estimated_size(rows)
        ends = in_ranges(rows, ["part", "id"]).groupBy(functions.spark_partition_id()).agg(
            functions.expr("min(struct(part, id))"), functions.expr("max(struct(part, id))")
        )  # fmt: skip
        found = sorted((tuple(row[1]), tuple(row[2])) for row in ends.collect())
    finally:
        rows.unpersist()
    assert len(found) == ceil(estimated / RANGE) > 2
    assert [one for pair in found for one in pair] == sorted(one for pair in found for one in pair)


def test_files_keep_their_ranges_of_keys_whatever_changes(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, "SELECT * FROM source", key=("id",))
    made.source_of("id INT, n INT, text STRING")
    made.run("INSERT INTO {source} SELECT id, 0, repeat('x', 8000) FROM range(0, 12000, 2)")
    made.refresh(EU)

    def ranges() -> list[tuple[int, int]]:
        """Return the first and the last key of each file."""
        files = spark.read.format("delta").load(made.location).groupBy(AUDIENCE_COLUMN, "_metadata.file_path")
        ends = files.agg(functions.min("id"), functions.max("id")).collect()
        return sorted((row[2], row[3]) for row in ends)

    def replaced(audiences: dict[str, Values], *statements: str) -> int:
        """Change the source, and return how many files of the view are written anew."""
        made.run(*statements)
        found = made.refresh(audiences)
        log = (Path(made.location) / f"_delta_log/{found.version:020}.json").read_text()
        told = ["count(*)", "sum(id)", "sum(n)", "sum(length(text))"]
        source, view = (spark.read.format("delta").load(f"{tmp_path}/{name}") for name in ("source", "view"))
        for name in audiences:
            rows = view.where(f"{AUDIENCE_COLUMN} = '{name}'").selectExpr(*told).first()
            assert rows == source.selectExpr(*told).first()
        return sum("remove" in json.loads(line) for line in log.split("\n") if line)

    first = ranges()
    assert len(first) > 2
    changes = "MERGE INTO {source} old USING (SELECT id FROM range(1, 12000, 100)) new ON old.id = new.id + 1"
    changes += " WHEN MATCHED AND new.id % 400 = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 1"
    changes += " WHEN NOT MATCHED THEN INSERT (id, n, text) VALUES (new.id, 0, 'new')"
    assert replaced(EU, changes) == len(first)
    after = ranges()
    assert all(before[1] < following[0] for before, following in itertools.pairwise(after)), after
    assert len(first) - 1 <= len(after) <= len(first) + 1  # in one file every range would hold
    assert replaced(EU, "UPDATE {source} SET n = 2 WHERE id BETWEEN 100 AND 300") == 1


def asked(spark: "SparkSession", condition: str, since: str) -> bool:
    """Return whether Spark would put the time into a view's SQL."""
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
def test_the_time_is_found_however_it_is_asked_for(spark: "SparkSession", condition: str) -> None:
    assert asked(spark, condition, "2020-01-01")


def test_a_recipients_own_date_is_no_clock_unless_it_says_today(spark: "SparkSession", tmp_path: Path) -> None:
    assert not asked(spark, "d > DATE'2020-01-01'", "2020-01-01")
    assert asked(spark, "d > DATE'2020-01-01'", "today")
    made = Made(spark, tmp_path, "SELECT max(d) AS d FROM source WHERE d < CAST(current_recipient('until') AS DATE)")
    made.source_of("d DATE", "INSERT INTO {source} VALUES ('2020-01-01'), ('2100-01-01')")
    audiences: dict[str, Values] = {"p": {"until": "today"}}
    made.refresh(audiences)
    assert made.refresh(audiences).full_because == "the SQL asks for the time"
    assert made.rows() == made.expected(audiences)


@pytest.mark.parametrize("user", ["current_user", "user", "SESSION_USER", "current_database()"])
def test_who_runs_the_refresh_is_no_column(spark: "SparkSession", user: str) -> None:
    session = spark.newSession()
    evaluation = Evaluation(session, read_sql("SELECT a, USER AS u FROM source".replace("USER", user)), {})
    with pytest.raises(InvalidParameter, match="who runs the refresh"):
        evaluation.columns(session.sql("SELECT 1 AS a"))


def test_a_column_may_be_called_as_the_user_is(spark: "SparkSession") -> None:
    session = spark.newSession()
    evaluation = Evaluation(session, read_sql("SELECT user FROM source"), {})
    assert evaluation.columns(session.sql("SELECT 1 AS user")).columns[1:] == ["user"]


def test_masks_lists_and_expressions_are_made_in_one_pass(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(
        spark,
        tmp_path,
        "SELECT id, CASE WHEN region = current_recipient('region') THEN name ELSE left(name, 1) END AS name, "
        "current_recipient('region') AS mine FROM source WHERE region IN current_recipient('all') OR id = 4",
    )
    made.source_of(COLUMNS, FOUR)
    audiences: dict[str, Values] = {
        "p1": {"region": "EU", "all": ("EU", "US")},
        "p2": {"region": 'it\'s \\ "quoted"', "all": "US"},
    }
    made.refresh(audiences)
    assert made.rows() == made.expected(audiences)
    made.run("UPDATE {source} SET name = 'zz', region = 'US' WHERE id IN (1, 4)")
    assert refreshed_exactly(made, audiences).full_because == ""
    # Whoever lacks a property, or has a list for one value, sees nothing at all: not what `OR` would show.
    lacking: dict[str, Values] = {"p3": {"region": "EU"}, "p4": {"region": ("EU",), "all": "EU"}, "p5": {"all": ()}}
    found = made.refresh(audiences | lacking)
    assert [found.rows[name] for name in lacking] == [0, 0, 0]


@pytest.mark.long
def test_what_is_no_row_by_itself_is_computed_in_full_and_written_as_its_differences(
    spark: "SparkSession", tmp_path: Path
) -> None:
    made = Made(
        spark,
        tmp_path,
        "SELECT region, count(*) AS n, max(id) AS latest FROM source "
        "WHERE region = current_recipient('region') GROUP BY region",
        key=("region",),
    )
    made.source_of(COLUMNS, FOUR)
    made.refresh(EU | US)
    made.run("DELETE FROM {source} WHERE id = 3")
    found = refreshed_exactly(made, EU | US)
    assert (found.updated, found.full_because) == (1, "the SQL aggregates")
    at = made.version()
    made.run("UPDATE {source} SET name = 'same'")
    assert made.refresh(EU | US).version == made.version() == at


@pytest.mark.long
def test_joins_follow_every_table_that_they_read(spark: "SparkSession", tmp_path: Path) -> None:
    sql = (
        "SELECT source.id, t.label FROM source LEFT JOIN `shop.x`.eu.labels t ON t.id = source.id "
        "WHERE source.region = current_recipient('region')"
    )
    labels = f"{tmp_path}/labels"
    made = Made(spark, tmp_path, sql, others={"shop.x.eu.labels": SourceTable("shop.x.eu.labels", labels)})
    made.source_of(COLUMNS, FOUR)
    made.run(f"CREATE TABLE delta.`{labels}` USING delta AS SELECT 1 AS id, 'one' AS label")
    made.refresh(EU | US)
    made.run(f"INSERT INTO delta.`{labels}` VALUES (3, 'three')")  # noqa: S608
    found = made.refresh(EU | US)
    assert found.sources == {"shop.eu.orders": 1, "shop.x.eu.labels": 1}
    assert found.full_because == "the SQL reads several tables"
    assert sorted(kind for kind, _ in made.changes(found.version)) == ["delete", "insert"]
    made.others = {}
    with pytest.raises(PipelineError, match=r"the SQL reads shop\.x\.eu\.labels, which is not shared"):
        made.refresh(EU | US)


@pytest.mark.long
def test_columns_may_come_and_not_go(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, "SELECT * FROM source WHERE region = current_recipient('region')", key=("id",))
    made.source_of(COLUMNS, FOUR)
    made.refresh(EU | US)
    made.run(
        "ALTER TABLE {source} ADD COLUMNS (extra STRUCT<x: INT>)",
        "INSERT INTO {source} VALUES (5, 'e', 'EU', struct(7))",
    )
    found = made.refresh(EU | US)
    assert found.full_because == "the source's columns are others than before"
    assert (found.inserted, found.updated, found.deleted) == (1, 0, 0)
    assert made.rows() == made.expected(EU | US)
    made.sql = "SELECT id, region, extra FROM source WHERE region = current_recipient('region')"
    with pytest.raises(PipelineError, match=r"the column name \(string\) is gone.*make a new view"):
        made.refresh(EU | US)
    made.sql = "SELECT *, id * 2 AS twice FROM source WHERE region = current_recipient('region')"
    found = made.refresh(EU | US)
    assert found.full_because == "its SQL, its key or its source is another one than before"
    assert made.rows() == made.expected(EU | US)
    made.run("DELETE FROM {source} WHERE id = 1")
    assert refreshed_exactly(made, EU | US).full_because == ""


@pytest.mark.long
def test_changes_that_cannot_be_followed_are_found_by_comparing(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, OF_REGION)
    made.source_of(COLUMNS, FOUR)
    made.refresh(EU)
    off, on = (
        "ALTER TABLE {source} SET TBLPROPERTIES (delta.enableChangeDataFeed = " + is_ + ")" for is_ in ("false", "true")
    )
    made.run(off, "UPDATE {source} SET name = 'z' WHERE id = 1")
    found = refreshed_exactly(made, EU)
    assert "has no change feed" in found.full_because
    made.run("UPDATE {source} SET name = 'y' WHERE id = 1", on)
    found = refreshed_exactly(made, EU)
    assert "no longer tells its changes" in found.full_because
    shutil.rmtree(tmp_path / "source")
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    made.source_of(COLUMNS, FOUR)
    assert "another" in refreshed_exactly(made, EU).full_because


@pytest.mark.long
def test_a_source_with_every_kind_of_column_and_deletion_vectors(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(
        spark,
        tmp_path,
        "SELECT id, s, m, xs, CAST(d AS DECIMAL(9, 2)) AS d, t, f, `odd name` AS odd "
        "FROM source WHERE region = current_recipient('region')",
    )
    made.source_of(
        "id INT, region STRING, s STRUCT<a: INT, b: MAP<STRING, INT>>, m MAP<STRING, STRUCT<x: INT>>, "
        "xs ARRAY<INT>, d DECIMAL(20, 5), t TIMESTAMP, f DOUBLE, `odd name` STRING",
        properties=", 'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'",
    )
    row = (
        "({id}, 'EU', named_struct('a', 1, 'b', map('k', 1, 'l', 2)), map('q', named_struct('x', {x})), "
        "array(1, NULL), 1.5, TIMESTAMP'2026-01-02 03:04:05.000006Z', double('NaN'), NULL)"
    )
    made.run(f"INSERT INTO {{source}} VALUES {', '.join(row.format(id=id_, x=1) for id_ in (1, 1, 2, 3))}")  # noqa: S608
    made.refresh(EU)
    assert made.rows() == made.expected(EU)
    made.run(
        "UPDATE {source} SET m = map('q', named_struct('x', 2)) WHERE id = 2",
        "UPDATE {source} SET s = named_struct('a', 1, 'b', map('l', 2, 'k', 1)) WHERE id = 1",
        "DELETE FROM {source} WHERE id = 3",
    )
    found = refreshed_exactly(made, EU)
    assert (found.inserted, found.deleted) == (1, 2)


def test_a_value_that_spark_cannot_take_names_view_and_property(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, "SELECT id FROM source WHERE id > current_recipient('least')")
    made.source_of(COLUMNS, FOUR)
    with pytest.raises(
        PipelineError, match=r"view shop\.eu\.mine: the recipients' property 'least'.*CAST_INVALID_INPUT"
    ):
        made.refresh({"p1": {"least": "2"}, "p2": {"least": "many"}})
    assert not list(Path(made.location).rglob("*.json"))


def test_what_spark_alone_can_see_is_refused_too(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, OF_REGION)
    made.source_of(COLUMNS, FOUR)
    for sql, said in (
        ("SELECT NULL AS x FROM source", "no column of type void"),
        ("SELECT id, id FROM source", "two columns named id"),
        ("SELECT missing FROM source", "missing"),
    ):
        made.sql = sql
        with pytest.raises((PipelineError, InvalidParameter), match=said):
            made.refresh(EU)
    made.sql = "SELECT '${env:HOME}' AS home FROM source WHERE id = 1"
    made.refresh({"p": {}})
    assert made.rows() == Counter(["{'_deltaic_policy': 'p', 'home': '${env:HOME}'}"])
    over = Made(spark, tmp_path / "over", "SELECT * FROM source")
    spark.sql(f"CREATE TABLE {over.source} SHALLOW CLONE delta.`{made.location}`")
    with pytest.raises(InvalidParameter, match="a view itself"):
        over.refresh({"p": {}})


def test_a_longer_list_than_a_relation_of_policies_holds(spark: "SparkSession", tmp_path: Path) -> None:
    made = Made(spark, tmp_path, "SELECT id FROM source WHERE region IN current_recipient('all') AND d <= current_date")
    made.source_of("id INT, region STRING, d DATE", "INSERT INTO {source} VALUES (1, 'r7', DATE'2026-01-01')")
    audiences: dict[str, Values] = {"p": {"all": tuple(f"r{number}" for number in range(101))}}
    made.refresh(audiences)
    assert made.rows() == made.expected(audiences)
    at = made.version()
    found = made.refresh(audiences)
    assert (found.full_because, found.version) == ("the SQL asks for the time", at)
