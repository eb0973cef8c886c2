"""Test builds of datasets: write modes against plain Python, counts, quarantine, streams and dry runs."""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from datasets.files import dataset, json_source, run_of
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.job import summary_lines
from deltaic_datasets.run.run_state import Run, target_of
from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.spark.session import close_thread_connection
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.transactions import Transaction
from deltaic_pipeline.table.writing import write
from deltaic_terminal.progress import Step, silent
from pipeline.place import BUCKET, Place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_dataset_file_sets_schema_comments_and_sharing_of_the_table(
    spark: "SparkSession", catalog: JobCatalog, place: Place, admin: CatalogAdmin
) -> None:
    content = dataset(
        place.location,
        sources={
            "doses": json_source(
                place.folder,
                "doses",
                [{"id": n, "site": "ABX"[n % 3], "dose": n % 6} for n in range(12)],
                "id INT NOT NULL, site STRING, dose INT",
            ),
            "sites": json_source(place.folder, "sites", [{"name": "A"}, {"name": "B"}], "name STRING"),
        },
        steps=[
            {"view": "few", "sql": "SELECT * FROM doses WHERE id < 11"},
            {"view": "more", "sql": "SELECT *, id * 10 AS ten FROM few"},
        ],
        target={
            "share": "building.s.doses",
            "create_share": True,
            "comment": "Doses, one row each",
            "columns": {"dose": "Which dose it was", "TEN": "it's ten"},
            "cluster_by": ["site"],
            "properties": {"delta.deletedFileRetentionDuration": "interval 30 days"},
        },
        expectations=[
            {"expect": "range", "column": "dose", "max": 4, "action": "quarantine"},
            {"expect": "reference", "columns": ["site"], "to": "sites", "to_columns": ["name"], "action": "drop"},
            {"expect": "row_count", "min": 11, "max": 11},
        ],
    )
    summary = build(spark, run_of(content, "first"), catalog, silent)
    expected = [(n, n * 10) for n in range(11) if n % 6 <= 4 and n % 3 != 2]
    assert place.table().rows("id", "ten") == sorted(expected, key=repr)
    aside = place.table("_quarantine").rows("id", "_reasons", "_run")
    assert aside == [(5, ["range_dose"], "first")]
    assert (summary.rows, summary.quarantined, summary.version) == (11, 1, 0)
    assert (summary.written, summary.dropped, summary.unchanged) == (len(expected), 11 - 1 - len(expected), 0)
    detail: Any = spark.sql(f"DESCRIBE DETAIL delta.`{place.spark_location}`").first()
    assert detail["description"] == "Doses, one row each"
    assert detail["clusteringColumns"] == ["site"]
    assert detail["properties"]["delta.deletedFileRetentionDuration"] == "interval 30 days"
    assert {field.name: field.metadata.get("comment") for field in place.table().open().schema().fields} == {
        "id": None,
        "site": None,
        "dose": "Which dose it was",
        "ten": "it's ten",
    }
    assert admin.tables.get("building", "s", "doses").location == place.location
    latest = place.table().version()
    again = build(spark, run_of(content, "first"), catalog, silent)
    assert (again.version, again.repeated) == (0, True)
    assert place.table().version() == latest


def test_environment_variables_are_not_substituted_in_texts(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    placeholders = "${env:PATH} ${system:user.home} ${spark.app.name}"
    content = dataset(
        place.location,
        sources={"s": json_source(place.folder, "s", [{"id": 1}], "id INT")},
        steps=[{"view": "v", "sql": "SELECT id, 'kept' AS told FROM s".replace("kept", placeholders)}],
        target={"comment": placeholders},
        expectations=[{"expect": "sql", "name": "told", "condition": f"told = '{placeholders}'"}],
    )
    build(spark, run_of(content), catalog, silent)
    assert place.table().rows("told") == [(placeholders,)]
    assert place.table().open().metadata().description == placeholders


def test_rows_are_counted_in_the_pass_that_writes_them(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    source = json_source(place.folder, "s", [{"id": n} for n in range(10)], "id INT")
    expected = [
        {"expect": "range", "column": "id", "max": 7, "action": "drop"},
        {"expect": "sql", "name": "no_three", "condition": "id <> 3", "action": "quarantine"},
        {"expect": "not_null", "columns": ["id"]},
    ]

    def content(*more: dict[str, Any]) -> dict[str, Any]:
        return dataset(place.location, sources={"s": source}, expectations=[*expected, *more])

    summary = build(spark, run_of(content(), "one"), catalog, silent)
    expected_rows = [(n,) for n in range(8) if n != 3]
    assert place.table().rows("id") == expected_rows
    assert place.table("_quarantine").rows("id", "_reasons") == [(3, ["no_three"])]
    assert {item.name: item.failing for item in summary.verdicts} == {"range_id": 2, "no_three": 1, "not_null_id": 0}
    fatal = {"expect": "range", "name": "at_least_five", "column": "id", "min": 5}
    with pytest.raises(ExpectationFailed, match=r"at_least_five \(5 of 10 rows\)"):
        build(spark, run_of(content(fatal), "two"), catalog, silent)
    assert place.table().rows("id") == expected_rows
    assert len(place.table("_quarantine").rows("id")) == 1


def test_rows_over_a_limit_are_refused_and_rows_within_it_are_reported(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    rows = [{"id": n, "dose": n % 10} for n in range(100)]
    source = json_source(place.folder, "doses", rows, "id INT, dose INT")
    expectations: list[dict[str, Any]] = [
        {"expect": "range", "column": "dose", "max": 8, "action": "quarantine", "at_most": "10 %"},
        {"expect": "range", "name": "low", "column": "dose", "min": 1, "at_most": "9 rows"},
        {"expect": "unique", "columns": ["dose"], "action": "warn"},
        {"expect": "row_count", "max": 99, "action": "warn"},
        {"expect": "not_null", "columns": ["id"], "action": "drop", "at_most": "0 rows"},
    ]
    content = dataset(place.location, sources={"doses": source}, expectations=expectations)
    with pytest.raises(ExpectationFailed, match=r"written: low \(10 of 100 rows, at most 9 rows\)\.$"):
        build(spark, run_of(content), catalog, silent)
    assert not place.table().exists()
    assert not place.table("_quarantine").exists()
    expectations[1]["at_most"] = "10 rows"
    summary = build(spark, run_of(content), catalog, silent)
    assert (summary.version, summary.written, summary.quarantined, summary.dropped) == (0, 90, 10, 0)
    [*_, line] = summary_lines(summary, "")
    assert line.split(maxsplit=2)[2] == (
        "range_dose (10 of 100 rows, at most 10 %); low (10 of 100 rows, at most 10 rows); unique_dose (100 of 100 "
        "rows); row_count (100 rows, expected any to 99)"
    )


def test_warnings_are_counted_in_the_pass_that_writes(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    source = json_source(place.folder, "doses", [{"id": n} for n in range(10)], "id INT")
    content = dataset(
        place.location,
        sources={"doses": source},
        expectations=[{"expect": "range", "column": "id", "max": 6, "action": "warn"}],
    )
    summary = build(spark, run_of(content), catalog, silent)
    assert (summary.written, [verdict.text for verdict in summary.verdicts]) == (10, ["range_id (3 of 10 rows)"])
    assert place.table().rows("id") == [(n,) for n in range(10)]


def test_repeated_run_writes_the_missing_quarantine_table(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    def content(*more: dict[str, Any]) -> Run:
        aside = {"expect": "range", "column": "id", "max": 2, "action": "quarantine"}
        source = json_source(place.folder, "s", [{"id": n} for n in range(4)], "id INT")
        write = {"mode": "merge", "keys": ["id"]}
        return run_of(
            dataset(place.location, sources={"s": source}, write=write, expectations=[aside, *more]), "killed"
        )

    # The state of a killed run: its rows are committed, and nothing else.
    transaction = Transaction.of_run("killed", content().dataset.name)
    write(spark, spark.range(3).selectExpr("int(id) AS id"), target_of(content().dataset), transaction)
    # Expectations were checked before the commit. Rows that are too old by now do not change that.
    summary = build(spark, content({"expect": "row_count", "min": 99}), catalog, silent)
    assert (summary.version, summary.repeated, summary.quarantined) == (0, True, 1)
    assert place.table("_quarantine").rows("id") == [(3,)]
    assert build(spark, content(), catalog, silent).quarantined == 0
    assert place.table().rows("id") == [(0,), (1,), (2,)]
    assert place.table("_quarantine").rows("id") == [(3,)]


def test_stream_writes_every_batch_once(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    inbox = place.folder / "inbox"
    inbox.mkdir()

    def arrive(name: str, *rows: tuple[int, str]) -> None:
        json_source(inbox, name, [{"id": number, "name": text} for number, text in rows])

    source = {
        "format": "json",
        "paths": [str(inbox)],
        "schema": "id INT NOT NULL, name STRING",
        "options": {"maxFilesPerTrigger": 1},
    }
    content = dataset(
        place.location,
        sources={"arrivals": source},
        steps=[{"view": "named", "sql": "SELECT id, upper(name) AS name FROM arrivals"}],
        stream={"source": "arrivals", "checkpoint": f"{place.location}_checkpoint"},
        write={"mode": "merge", "keys": ["id"]},
        expectations=[{"expect": "range", "column": "id", "max": 99, "action": "drop"}],
    )
    arrive("1", (1, "a"), (2, "b"))
    arrive("2", (2, "B2"), (100, "x"))
    summary = build(spark, run_of(content, "one"), catalog, silent)
    assert (summary.batches, summary.rows) == (2, 4)
    arrive("3", (3, "c"))
    assert build(spark, run_of(content, "two"), catalog, silent).rows == 1
    actual_rows = dict(place.table().rows("id", "name"))
    assert actual_rows.keys() == {1, 2, 3}
    assert actual_rows[2] in {"B", "B2"}  # the order of the files depends on the file system
    transactions = spark.read.json(f"{place.spark_location}/_delta_log/0*.json").where("txn IS NOT NULL")
    assert sorted(row["version"] for row in transactions.select("txn.version").collect()) == [0, 1, 2]
    arrive("4", (4, "d"))
    (inbox / "5.json").write_text('{"id": 5, "name')
    with pytest.raises(PipelineError, match=r"5\.json:1: is not one JSON object"):
        build(spark, run_of(content, "four"), catalog, silent)
    assert {4, 3, 2, 1} >= dict(place.table().rows("id", "name")).keys() >= {1, 2, 3}


def test_every_kind_of_source_is_read(
    spark: "SparkSession", catalog: JobCatalog, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, driver = "jdbc:derby:memory:registry", "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    rows = spark.range(10).selectExpr("id", "concat('row ', id) AS name")
    rows.write.format("jdbc").options(url=f"{url};create=true", dbtable="people", user="me", driver=driver).save()
    for name in ("avro", "parquet", "delta"):
        rows.where(f"id % 2 = {int(name == 'avro')}").write.format(name).save(str(place.folder / name))
    (place.folder / "rows.csv").write_text("id;name\n7;row 7\n")
    monkeypatch.setenv("REGISTRY_PASSWORD", "not in any log")
    database = {
        "format": "jdbc",
        "url": url,
        "driver": driver,
        "user": "me",
        "password": {"environment": "REGISTRY_PASSWORD"},
    }
    ranges = {"column": "id", "lower": 0, "upper": 10, "count": 3}
    schema = "id BIGINT NOT NULL, name STRING"
    sources = {
        "a": {"format": "avro", "paths": [f"{place.folder}/av*"], "schema": schema},
        "p": {"format": "parquet", "paths": [str(place.folder / "parquet")], "schema": schema},
        "d": {"format": "delta", "path": str(place.folder / "delta"), "options": {"versionAsOf": 0}},
        "c": {"format": "csv", "paths": [f"{place.folder}/*.csv"], "schema": schema, "options": {"sep": ";"}},
        "t": {**database, "table": "people", "partitions": ranges},
        "q": {**database, "query": 'SELECT "id", "name" FROM people WHERE "id" > 8'},
    }
    union = " UNION ALL ".join(f"(FROM {name} SELECT '{name}' AS source, id, name)" for name in sources)
    run = run_of(dataset(place.location, sources=sources, steps=[{"view": "everything", "sql": union}]))
    assert "not in any log" not in plan_run(spark, run).spark_plan
    build(spark, run, catalog, silent)
    actual_rows = place.table().rows("source", "id", "name")
    odd, even = range(1, 10, 2), range(0, 10, 2)
    expected = {"a": odd, "p": even, "d": even, "c": [7], "t": range(10), "q": [9]}
    assert actual_rows == sorted(((name, n, f"row {n}") for name, ids in expected.items() for n in ids), key=repr)


def test_dry_run_reports_effects_and_changes_nothing(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: Any
) -> None:
    def content(rows: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
        source = json_source(place.folder, f"rows{len(rows)}", rows)
        return dataset(place.location, sources={"s": source}, write={"mode": "merge", "keys": ["id"]}, **more)

    first = content([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    report = plan_run(spark, run_of(first))
    assert (report.new, report.rows, report.effect) == (True, 2, {})
    build(spark, run_of(first), catalog, silent)

    def keys() -> list[str]:
        objects = s3.list_objects_v2(Bucket=BUCKET, Prefix=place.prefix)["Contents"]
        return [f"{item['Key']} {item['ETag']}" for item in objects]

    before, steps = keys(), list[Step]()
    more = [{"id": 1, "name": "a", "age": 3}, {"id": 2, "name": "B", "age": 4}, {"id": 3, "name": "c", "age": -1}]
    report = plan_run(
        spark,
        run_of(
            content(
                more,
                target={"comment": "People"},
                expectations=[{"expect": "range", "column": "age", "min": 0, "action": "quarantine"}],
            )
        ),
        steps.append,
    )
    phases = [step.text.split()[0] for step in steps if step.seconds is not None]
    assert phases == ["Reading", "Checking", "Counting", "Comparing"]
    assert [str(item) for item in report.differences] == ["age (bigint) is not in the table"]
    assert (report.rows, report.written) == (3, 2)
    assert report.effect == {"new": 0, "changed": 2, "unchanged": 0}
    assert any("COMMENT ON TABLE" in item for item in report.pending)
    assert any("range_age (quarantine): 1 of 3 rows" in line for line in report.lines())
    assert keys() == before
    catalog.leases.acquire(place.location, "anyone", timedelta(seconds=1))  # no lease was taken
    catalog.leases.release(place.location, "anyone")


def test_two_writers_of_one_table_lose_nothing(
    spark: "SparkSession", catalog: JobCatalog, place: Place, s3: "S3Client"
) -> None:
    def write(name: str, mode: Mapping[str, Any], first: int) -> list[int | None]:
        versions = []
        for number in range(2):
            rows = [{"id": first + 5 * number + n, "name": name} for n in range(5)]
            source = json_source(place.folder, f"{name}{number}", rows, "id INT, name STRING")
            run = run_of(dataset(place.location, sources={"s": source}, write=mode), f"{name}-{number}")
            versions.append(build(spark, replace(run, wait=timedelta(minutes=9)), catalog, silent).version)
        close_thread_connection(spark)
        return versions

    with ThreadPoolExecutor(2) as pool:
        appending = pool.submit(write, "append", {"mode": "append"}, 0)
        merging = pool.submit(write, "merge", {"mode": "merge", "keys": ["id"]}, 100)
        acknowledged = appending.result() + merging.result()
    expected_rows = [(n, "append") for n in range(10)] + [(n, "merge") for n in range(100, 110)]
    assert place.table().rows("id", "name") == sorted(expected_rows, key=repr)
    objects = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{place.prefix}/_delta_log/0")["Contents"]
    commits = {int(item["Key"].rpartition("/")[2].split(".")[0]) for item in objects}
    assert len(set(acknowledged)) == 4
    assert set(acknowledged) <= commits


BASE = datetime(2026, 1, 1, tzinfo=UTC)
State = tuple[Any, ...]


def overwrite_partitions(table: list[State], rows: list[State]) -> list[State]:
    days = {day for _, day, _ in rows}
    return [row for row in table if row[1] not in days] + rows


def merged(table: list[State], rows: list[State]) -> list[State]:
    return list(({row[0]: row for row in table} | {row[0]: row for row in rows}).values())


def appended(table: list[State], rows: list[State]) -> list[State]:
    return table + rows


ORACLES: dict[str, tuple[dict[str, Any], Callable[[list[State], list[State]], list[State]]]] = {
    "append": ({"mode": "append"}, appended),
    "overwrite": ({"mode": "overwrite"}, lambda _, rows: rows),
    "overwrite_partitions": ({"mode": "overwrite_partitions"}, overwrite_partitions),
    "overwrite_partitions where": (
        {"mode": "overwrite_partitions", "where": "day = 1"},
        lambda table, rows: [row for row in table if row[1] != 1] + rows,
    ),
    "merge": ({"mode": "merge", "keys": ["id"]}, merged),
}


@pytest.mark.parametrize(
    "mode",  # test_two_writers_of_one_table_lose_nothing appends and merges
    [pytest.param(mode, marks=[pytest.mark.long] * (mode in {"append", "merge"})) for mode in ORACLES],
)
def test_write_modes_agree_with_plain_python(
    spark: "SparkSession", catalog: JobCatalog, place: Place, mode: str
) -> None:
    write, oracle = ORACLES[mode]
    draw = random.Random(mode)  # noqa: S311 -- the same rows every time
    expected: list[State] = []
    for number in range(2):
        days = [1] if "where" in write else [draw.randrange(4) for _ in range(2)]
        rows = [
            (key, draw.choice(days), draw.choice([None, "x", "y", "ü'`"]))
            for key in draw.sample(range(12), draw.randrange(1, 8))
        ]
        source = json_source(
            place.folder,
            f"{number}",
            [dict(zip(("id", "day", "name"), row, strict=True)) for row in rows],
            "id INT, day INT, name STRING",
        )
        partitions = {} if write["mode"] == "merge" else {"partition_by": ["day"]}
        content = dataset(place.location, sources={"s": source}, write=write, target=partitions)
        build(spark, run_of(content, f"{number}"), catalog, silent)
        expected = oracle(expected, rows)
        assert place.table().rows("id", "day", "name") == sorted(expected, key=repr)


def with_states(table: list[State], rows: list[State]) -> list[State]:
    """Predict states of type 2 as (key, name, since, until, current)."""
    for key, name, since in rows:
        old = next((row for row in table if row[0] == key and row[4]), None)
        if old is not None and old[1] == name:
            continue
        if old is not None:
            table.remove(old)
            table.append((*old[:3], since, False))
        table.append((key, name, since, None, True))
    return table


def test_dry_run_finds_current_states_by_custom_column_names(spark: "SparkSession", tmp_path: Path) -> None:
    since = "TIMESTAMP'2026-01-01' AS valid_from, CAST(NULL AS TIMESTAMP) AS valid_to"
    states = spark.sql(f"SELECT 1 AS id, 'a' AS name, {since}, true AS `is``current`")
    states.write.format("delta").save(f"{tmp_path}/states")
    source = json_source(tmp_path, "rows", [{"id": 1, "name": "b"}], "id INT, name STRING")
    write = {"mode": "scd2", "keys": ["id"], "current": "is`current"}
    report = plan_run(spark, run_of(dataset(f"{tmp_path}/states", sources={"s": source}, write=write)))
    assert report.effect == {"new": 0, "changed": 1, "unchanged": 0}


def test_scd2_keeps_every_state_with_its_period(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    draw = random.Random(2)  # noqa: S311 -- the same rows every time
    expected: list[State] = []

    def content(name: str, rows: list[State]) -> dict[str, Any]:
        lines = [{"id": key, "name": text, "changed": f"{since:%Y-%m-%dT%H:%M:%SZ}"} for key, text, since in rows]
        source = json_source(place.folder, name, lines, "id INT, name STRING, changed TIMESTAMP")
        write = {"mode": "scd2", "keys": ["id"], "at": "changed"}
        return dataset(place.location, sources={"s": source}, write=write)

    def actual_rows() -> list[tuple[Any, ...]]:
        rows = place.table().rows("id", "name", "valid_from", "valid_to", "is_current")
        return sorted(((*row[:2], seconds(row[2]), seconds(row[3]), row[4]) for row in rows), key=repr)

    def seconds(instant: datetime | None) -> int | None:
        return None if instant is None else int(instant.timestamp())

    for number in range(2):
        since = BASE + timedelta(days=number)
        rows = [(key, draw.choice([None, "x", "y"]), since) for key in draw.sample(range(8), 5)]
        build(spark, run_of(content(f"{number}", rows), f"{number}"), catalog, silent)
        expected = with_states(expected, rows)
        assert actual_rows() == sorted(
            ((*row[:2], seconds(row[2]), seconds(row[3]), row[4]) for row in expected), key=repr
        )
    current = next(row for row in expected if row[4])
    late = [(current[0], "late", BASE - timedelta(days=1))]
    with pytest.raises(PipelineError, match="deliver states in the order of their time"):
        build(spark, run_of(content("late", late), "late"), catalog, silent)
    assert len(actual_rows()) == len(expected)
