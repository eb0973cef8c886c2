"""Test watermarks: rows of a database are read exactly once, even if runs are killed."""

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import boto3
import pandas as pd
import pytest
from botocore.config import Config
from datasets.databases import Database
from datasets.death import living
from datasets.files import dataset, run_of
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import DeltaicError
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.job import summary_lines
from deltaic_datasets.run.run_state import RunSummary
from deltaic_datasets.run.watermark import Advance, advances
from deltaic_datasets.run.windows import Window
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_pipeline.failures import ExpectationFailed, PipelineError
from deltaic_pipeline.table.catalog_entry import JobCatalog, connect
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_terminal.progress import silent
from faults.proxy import Proxy
from held_lease import held_lease
from pipeline.place import CATALOG, TOKENS, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

MERGE = {"mode": "merge", "keys": ["id"]}
BUCKET = "marked"
DEATHS = os.environ.get("DELTAIC_DEATHS", "")


@pytest.fixture
def database(spark: "SparkSession", place: Place) -> Database:
    return Database(spark, place.prefix)


def table_of(spark: "SparkSession", location: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(location.replace("s3://", "s3a://", 1)).select(*columns)
    return sorted((tuple(row) for row in rows.collect()), key=repr)


@dataclass(frozen=True)
class Column:
    """A type of column with increasing values."""

    kind: str
    literals: Sequence[str]
    start: Any
    """The second value."""

    overlap: Any
    """Overlap that includes the third value below the fourth, but not the first."""

    options: dict[str, str] = field(default_factory=dict)


COLUMNS = {
    "integer": Column("INT", ["-5", "0", "7", "1000"], 0, 995),
    "bigint": Column("BIGINT", ["-9000000000", "1", "2", "9000000000000000000"], 1, 8999999999999999999),
    "decimal": Column("DECIMAL(31, 9)", ["-1.5", "0.25", "0.250000001", "12345678901234.5"], 0.25, 12345678901234.5),
    "date": Column(
        "DATE", ["'2025-12-31'", "'2026-01-01'", "'2026-01-02'", "'2026-10-25'"], date(2026, 1, 1), "297 days"
    ),
    "timestamp": Column(
        "TIMESTAMP",
        # In the hour that Europe repeats in autumn, and within a microsecond.
        [
            "'2025-10-26 01:30:00'",
            "'2025-10-26 02:30:00.000001'",
            "'2025-10-26 02:30:00.000002'",
            "'2026-03-29 02:30:00.123456789'",
        ],
        datetime(2025, 10, 26, 2, 30, tzinfo=UTC),
        "13305601 seconds",
    ),
    "timestamp without a zone": Column(
        "TIMESTAMP",
        ["'2025-10-26 01:30:00'", "'2025-10-26 02:30:00'", "'2025-10-26 02:30:01'", "'2026-03-29 02:30:00.1'"],
        datetime(2025, 10, 26, 2, 30),  # noqa: DTZ001 -- as YAML has it
        "13305601 seconds",
        {"preferTimestampNTZ": "true"},
    ),
}


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(["decimal", "date", "timestamp", "timestamp without a zone"], id="a column of each kind"),
        pytest.param([*COLUMNS], id="all types", marks=pytest.mark.long),
    ],
)
def test_only_rows_above_the_watermark_are_read(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database, types: list[str]
) -> None:
    tables = {name: f"seen{number}" for number, name in enumerate(types)}
    for name, table in tables.items():
        database.run(f'CREATE TABLE {table} (id INT, "at" {COLUMNS[name].kind})')
    selects = [f"SELECT '{name}' AS name, ID AS id FROM {table}" for name, table in tables.items()]  # noqa: S608

    def insert(*rows: tuple[int, int]) -> None:
        """Insert rows into each table, each with an id and the number of its value."""
        for name, table in tables.items():
            database.insert(table, *(f"{row_id}, {COLUMNS[name].literals[number]}" for row_id, number in rows))

    def run(run_number: int, location: str = "", **marks: dict[str, Any]) -> RunSummary:
        """Run a dataset that reads all tables, with settings of the watermark by name."""
        sources = {}
        for name, table in tables.items():
            watermark = {"column": "AT", **{setting: values[name] for setting, values in marks.items()}}
            sources[table] = database.source(table, watermark=watermark, options=COLUMNS[name].options)
        write = {"mode": "merge", "keys": ["name", "id"]} if "overlap" in marks else {"mode": "append"}
        steps = [{"view": "together", "sql": " UNION ALL ".join(selects)}]
        content = dataset(f"{place.location}{location}", sources=sources, steps=steps, write=write)
        return build(spark, run_of(content, f"r{run_number}"), catalog, silent)

    def ids(location: str = "") -> dict[str, list[int]]:
        rows = place.table(location).rows("name", "id")
        return {name: [row_id for row_name, row_id in rows if row_name == name] for name in types}

    def of_each(value: Any) -> dict[str, Any]:
        return dict.fromkeys(types, value)

    assert run(0).version == 0  # tables without rows
    insert((0, 0), (1, 1), (2, 2))
    assert run(1, start={name: column.start for name, column in COLUMNS.items()}).rows == 2 * len(types)
    assert ids() == of_each([1, 2])
    before = place.table().version()
    nothing = run(2)
    assert (nothing.version, nothing.rows, nothing.repeated) == (None, 0, False)
    assert place.table().version() == before
    assert ["version", "none"] in [line.split() for line in summary_lines(nothing, "")]
    insert((3, 3), (4, 1))
    assert run(3).rows == len(types)
    assert ids() == of_each([1, 2, 3])
    # By key and with an overlap, late rows are read, but not those below the overlap.
    run(5, "_keyed")
    assert ids("_keyed") == of_each([0, 1, 2, 3, 4])
    insert((5, 2), (6, 0))
    run(6, "_keyed", overlap={name: column.overlap for name, column in COLUMNS.items()})
    assert ids("_keyed") == of_each([0, 1, 2, 3, 4, 5])


def test_repeated_run_reads_the_same_window(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database
) -> None:
    database.run("CREATE TABLE seen (id INT)", "INSERT INTO seen VALUES (1)")
    content = dataset(place.location, sources={"s": database.source("seen", watermark={"column": "id"})})
    first = build(spark, run_of(content, "a"), catalog, silent)
    database.run("INSERT INTO seen VALUES (2)")
    again = build(spark, run_of(content, "a"), catalog, silent)
    assert (again.version, again.repeated) == (first.version, True)
    assert place.table().rows("ID") == [(1,)]
    build(spark, run_of(content, "b"), catalog, silent)
    build(spark, run_of(content, "a"), catalog, silent)
    assert place.table().rows("ID") == [(1,), (2,)]
    known_ids = advances(spark, run_of(content), DeltaTarget(place.location))
    assert [(advance.run, advance.windows["s"].above, advance.windows["s"].upto) for advance in known_ids] == [
        ("a", None, "1"),
        ("b", "1", "2"),
    ]


def test_rejected_rows_are_not_read_again(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database
) -> None:
    database.run("CREATE TABLE seen (id INT, dose INT)", "INSERT INTO seen VALUES (1, 9), (2, 9), (3, -1)")
    expectations = [
        {"expect": "range", "column": "dose", "max": 4, "action": "quarantine"},
        {"expect": "range", "name": "least", "column": "dose", "min": 0, "action": "drop"},
    ]
    source = database.source("seen", watermark={"column": "id"})
    content = dataset(place.location, sources={"s": source}, expectations=expectations)
    for number in range(2):
        summary = build(spark, run_of(content, f"r{number}"), catalog, silent)
        assert (summary.quarantined, summary.rows, summary.version) == ((2, 3, 0) if number == 0 else (0, 0, None))
    database.run("INSERT INTO seen VALUES (4, 9), (5, 1)")
    assert build(spark, run_of(content, "last"), catalog, silent).quarantined == 1
    assert place.table().rows("ID") == [(5,)]
    assert place.table("_quarantine").rows("ID", "_run") == [(1, "r0"), (2, "r0"), (4, "last")]


def test_failed_expectation_does_not_move_the_watermark(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database
) -> None:
    database.run("CREATE TABLE seen (id INT, dose INT)", "INSERT INTO seen VALUES (1, 1)")
    expectations = [{"expect": "range", "column": "dose", "max": 4}]
    source = database.source("seen", watermark={"column": "id"})
    content = dataset(place.location, sources={"s": source}, expectations=expectations)
    build(spark, run_of(content, "a"), catalog, silent)
    database.run("INSERT INTO seen VALUES (2, 9)")
    with pytest.raises(ExpectationFailed):
        build(spark, run_of(content, "b"), catalog, silent)
    database.run("UPDATE seen SET dose = 2 WHERE id = 2")
    build(spark, run_of(content, "b"), catalog, silent)
    assert place.table().rows("ID", "DOSE") == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    "write",  # test_rejected_rows_are_not_read_again appends
    [
        pytest.param({"mode": "append"}, id="append", marks=pytest.mark.long),
        pytest.param(MERGE, id="merge"),
        pytest.param({"mode": "scd2", "keys": ["id"]}, id="scd2", marks=pytest.mark.long),
    ],
)
def test_watermark_moves_without_changed_rows(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database, write: dict[str, Any]
) -> None:
    database.run('CREATE TABLE seen (id INT, "at" INT, site VARCHAR(9))', "INSERT INTO seen VALUES (1, 1, 'a')")
    few = [{"view": "few", "sql": "SELECT ID AS id, SITE AS site FROM s WHERE SITE <> 'x'"}]

    def read(run_id: str) -> list[Any]:
        source = database.source("seen", watermark={"column": "at"})
        content = dataset(place.location, sources={"s": source}, steps=few, write=write)
        build(spark, run_of(content, run_id), catalog, silent)
        return [advance.windows["s"].upto for advance in advances(spark, run_of(content), DeltaTarget(place.location))]

    assert read("one") == ["1"]
    database.run("INSERT INTO seen VALUES (2, 2, 'x')")
    assert read("two") == ["1", "2"]
    if write["mode"] != "append":
        database.run('UPDATE seen SET "at" = 3 WHERE id = 1')  # the same row again
        assert read("three") == ["1", "2", "3"]
    assert place.table().rows("id", "site") == [(1, "a")]


def test_sources_and_datasets_have_separate_watermarks(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database
) -> None:
    database.run("CREATE TABLE a (id INT)", "CREATE TABLE b (id INT)", "CREATE TABLE names (id INT, name VARCHAR(9))")
    database.run("INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (100)", "INSERT INTO names VALUES (1, 'one')")
    marked = {name: database.source(name, watermark={"column": "id"}) for name in "ab"}
    joined_sql = "SELECT 'a' AS t, a.ID AS id, NAME AS name FROM a LEFT JOIN names ON a.ID = names.ID"
    both = "FROM named UNION ALL SELECT 'b', ID, NULL FROM b"
    steps = [{"view": "named", "sql": joined_sql}, {"view": "both", "sql": both}]

    def read(run_id: str, name: str = "tried") -> list[tuple[Any, ...]]:
        sources = {**marked, "names": database.source("names")}
        content = dataset(place.location, name=name, sources=sources, steps=steps)
        build(spark, run_of(content, run_id), catalog, silent)
        return place.table().rows("t", "id", "name")

    assert read("one") == [("a", 1, "one"), ("a", 2, None), ("b", 100, None)]
    database.run("INSERT INTO b VALUES (101)")
    assert len(read("two")) == 4
    database.run("INSERT INTO a VALUES (3)")
    assert len(read("three")) == 5
    assert len(read("five", "another")) == 10


def test_dry_run_shows_windows(spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database) -> None:
    database.run("CREATE TABLE seen (id INT)", "INSERT INTO seen VALUES (1), (2)")
    content = dataset(place.location, sources={"s": database.source("seen", watermark={"column": "id"})})
    first = plan_run(spark, run_of(content))
    assert (first.rows, list(first.windows)) == (2, ["s: ID from the start, up to 2"])
    build(spark, run_of(content, "a"), catalog, silent)
    assert list(plan_run(spark, run_of(content)).windows) == ["s: ID above 2, no new rows"]
    database.run("INSERT INTO seen VALUES (9)")
    later = plan_run(spark, run_of(content))
    assert "reads s: ID above 2, up to 9" in list(later.lines())
    assert (later.rows, place.table().version()) == (1, 0)
    # The database filters the rows.
    assert "PushedFilters: [*IsNotNull(ID), *LessThanOrEqual(ID,9), *GreaterThan(ID,2)]" in later.spark_plan


WRONG: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "no such column": (
        "id INT",
        "1",
        {"column": "at"},
        r"sources.s.watermark: the source has no column at: choose from .*ID",
    ),
    "a double": ("id DOUBLE", "1", {}, "ID is DOUBLE: a watermark needs a timestamp, a date"),
    "a text": ("id VARCHAR(9)", "'a'", {}, "ID is STRING"),
    "nulls": ("id INT", "NULL", {}, "rows without a value in ID"),
    "the future": ("id DATE", "'9999-12-31'", {}, "is in the future"),
    "start of another kind": ("id DATE", "'2026-01-01'", {"start": 1}, "the column is a date, but start is not"),
    "start within a day": (
        "id DATE",
        "'2026-01-01'",
        {"start": datetime(2026, 1, 1, 1, tzinfo=UTC)},
        "the column is a date, but start is not",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_watermark_is_refused_before_a_commit(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database, name: str
) -> None:
    columns, value, mark, message = WRONG[name]
    database.run(f"CREATE TABLE seen ({columns})")
    database.insert("seen", value)
    content = dataset(place.location, sources={"s": database.source("seen", watermark={"column": "id", **mark})})
    with pytest.raises(PipelineError, match=message) as refusal:
        build(spark, run_of(content), catalog, silent)
    assert "9999" not in refusal.value.message
    with pytest.raises(PipelineError, match=message):
        plan_run(spark, run_of(content))
    assert advances(spark, run_of(content), DeltaTarget(place.location)) == []


def test_other_watermark_column_and_forgetting_table_are_refused(
    spark: "SparkSession", catalog: JobCatalog, place: Place, database: Database
) -> None:
    database.run("CREATE TABLE seen (id INT, day DATE)", "INSERT INTO seen VALUES (1, '2026-01-01')")

    def content(column: str, name: str = "s", **mark: Any) -> Any:
        source = database.source("seen", watermark={"column": column, **mark})
        return run_of(dataset(place.location, sources={name: source}, write={"mode": "merge", "keys": ["ID"]}), column)

    build(spark, content("id"), catalog, silent)
    with pytest.raises(PipelineError, match="watermark of the table is for ID, a number, and not for DAY, a date"):
        build(spark, content("day"), catalog, silent)
    build(spark, content("day", "other"), catalog, silent)
    with pytest.raises(PipelineError, match="overlap must be of whole days for a column that is a date"):
        build(spark, replace(content("day", "other", overlap="1 hour"), run_id="third"), catalog, silent)
    forgetting = "SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')"
    spark.sql(f"ALTER TABLE delta.`{place.spark_location}` {forgetting}")
    with pytest.raises(PipelineError, match="which deletes watermarks: unset it"):
        build(spark, content("id"), catalog, silent)


@pytest.fixture(scope="module")
def mortal(
    spark: "SparkSession", dynamo: Dynamo, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> Iterator["Mortal"]:
    """Return jobs that use AWS through a proxy, which can simulate their death."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    with Proxy(embedded_aws.endpoint).open() as proxy:
        hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set(f"fs.s3a.bucket.{BUCKET}.endpoint", proxy.url)
        once = Config(retries={"total_max_attempts": 1, "mode": "standard"})
        through = aws_session.client("dynamodb", endpoint_url=proxy.url, config=once)
        yield Mortal(spark, proxy, connect(CATALOG, TOKENS, Dynamo(lambda: through)), Leases(CATALOG, dynamo))


@dataclass
class Mortal:
    """A session whose jobs can be killed after a number of changes."""

    spark: "SparkSession"
    proxy: Proxy
    catalog: JobCatalog
    leases: Leases

    def run(self, content: dict[str, Any], run_id: str, changes_left: int | None = None) -> bool:
        """Run a dataset, with a limited number of changes if given; return whether it completed."""
        if changes_left is None:
            with living(self.proxy):
                build(self.spark, run_of(content, run_id), self.catalog, silent)
            return True
        finished = False
        with living(self.proxy, changes_left), suppress(DeltaicError):
            build(self.spark, run_of(content, run_id), self.catalog, silent)
            finished = True
        for place in (content["target"]["location"], f"{content['target']['location']}_quarantine"):
            lease = held_lease(self.leases, place)
            if lease is not None:
                self.leases.release(place, lease.holder)
        jvm: Any = self.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        return finished


EXPECTED = [{"expect": "range", "column": "DOSE", "max": 4, "action": "quarantine"}]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Visits:
    """A table of a database, and in pandas, that changes from day to day."""

    database: Database
    chance: random.Random
    rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["ID", "AT", "DOSE"]))
    now: datetime = NOON

    def write(self, *, late: timedelta | None, updates: bool) -> None:
        """Add and change some rows at later times, or too late by at most this time."""
        for _ in range(self.chance.randint(0, 3)):
            self.now += timedelta(seconds=self.chance.randint(1, 600))
            at = self.now
            if late is not None and self.chance.random() < 0.5:
                at -= timedelta(seconds=self.chance.randint(0, int(late.total_seconds())))
            known_ids = list(self.rows["ID"])
            number = (
                self.chance.choice(known_ids)
                if updates and known_ids and self.chance.random() < 0.5
                else len(known_ids)
            )
            self._write_row(number, at, self.chance.randint(0, 6))

    def _write_row(self, number: int, at: datetime, dose: int) -> None:
        timestamp = f"{at:%Y-%m-%d %H:%M:%S.%f}"
        self.database.run(f"DELETE FROM visits WHERE id = {number}")  # noqa: S608 -- a number
        self.database.insert("visits", f"{number}, '{timestamp}', {dose}")
        self.rows.loc[number] = [number, at, dose]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_random_days_with_kills_end_as_pandas_predicts(
    mortal: Mortal, spark: "SparkSession", place: Place, mode: str, seed: int
) -> None:
    chance, late = random.Random(f"{mode} {seed}"), timedelta(hours=2)  # noqa: S311
    visits = Visits(Database(spark, place.prefix), chance)
    visits.database.run('CREATE TABLE visits (id INT, "at" TIMESTAMP, dose INT)')
    keyed = mode == "merge"
    mark = {"column": "at", **({"overlap": "3 hours"} if keyed else {})}
    content = dataset(
        f"s3://{BUCKET}/{place.prefix}",
        sources={"s": visits.database.source("visits", watermark=mark)},
        write={"mode": "merge", "keys": ["ID"]} if keyed else {"mode": "append"},
        expectations=EXPECTED,
    )
    deaths = 0
    for day in range(6):
        visits.write(late=late if keyed else None, updates=keyed)
        if chance.random() < 0.6:
            deaths += not mortal.run(content, f"d{day}", chance.randint(1, 24))
            if chance.random() < 0.5:  # and rows were added before the repetition
                visits.write(late=None, updates=keyed)
        mortal.run(content, f"d{day}" if chance.random() < 0.5 else f"again{day}")
        if chance.random() < 0.7:
            continue
        mortal.run(content, f"check{day}")
        _compare(spark, content, visits.rows, keyed=keyed)
    mortal.run(content, "last")
    _compare(spark, content, visits.rows, keyed=keyed)
    assert deaths or seed


def _compare(spark: "SparkSession", content: dict[str, Any], rows: pd.DataFrame, *, keyed: bool) -> None:
    location = content["target"]["location"]
    good = rows[rows["DOSE"] <= 4]
    actual = table_of(spark, location, "ID", "DOSE")
    expected = sorted(((int(row.ID), int(row.DOSE)) for row in good.itertuples()), key=repr)
    aside = table_of(spark, f"{location}_quarantine", "ID", "DOSE")
    wrong = [(int(row.ID), int(row.DOSE)) for row in rows[rows["DOSE"] > 4].itertuples()]
    if keyed:  # if a later row is quarantined, the key keeps its last correct row
        assert set(expected) <= set(actual)
        assert {number for number, _ in actual} <= {int(number) for number in rows["ID"]}
        assert len(actual) == len({number for number, _ in actual})
        assert set(wrong) <= set(aside)
    else:
        assert actual == expected
        assert Counter(aside) == Counter(wrong)


@pytest.mark.long
def test_late_rows_without_an_overlap_are_missed_as_pandas_predicts(
    spark: "SparkSession", catalog: JobCatalog, place: Place
) -> None:
    chance = random.Random(4)  # noqa: S311
    visits = Visits(Database(spark, place.prefix), chance)
    visits.database.run('CREATE TABLE visits (id INT, "at" TIMESTAMP, dose INT)')
    source = visits.database.source("visits", watermark={"column": "at"})
    content = dataset(place.location, sources={"s": source})
    known_ids: set[int] = set()
    reached = datetime.min.replace(tzinfo=UTC)
    for day in range(10):
        visits.write(late=timedelta(hours=1), updates=False)
        build(spark, run_of(content, f"d{day}"), catalog, silent)
        known_ids |= set(visits.rows[visits.rows["AT"] > reached]["ID"])
        reached = max([reached, *visits.rows["AT"]])
        assert [row[0] for row in place.table().rows("ID")] == sorted(known_ids, key=lambda n: repr((n,)))
    assert len(known_ids) < len(visits.rows)


@pytest.mark.long
@pytest.mark.parametrize("again", ["first", "second"])
def test_run_killed_after_any_change_loses_and_repeats_no_row(
    mortal: Mortal, spark: "SparkSession", place: Place, again: str
) -> None:
    database = Database(spark, place.prefix)
    database.run("CREATE TABLE visits (id INT, dose INT)")
    points, finished = range(1, 26, 1 if DEATHS == "all" else 6), False
    for changes_left in (*points, None):
        location = f"s3://{BUCKET}/{place.prefix}-{changes_left}"
        source = database.source("visits", watermark={"column": "id"})
        content = dataset(location, sources={"s": source}, expectations=EXPECTED)
        database.run("DELETE FROM visits", "INSERT INTO visits VALUES (1, 1), (2, 9)")
        mortal.run(content, "before")
        database.run("INSERT INTO visits VALUES (3, 1), (4, 9)")
        finished = mortal.run(content, "first", changes_left)
        later = again == "second"
        if later:
            database.run("INSERT INTO visits VALUES (5, 1), (6, 9)")
        mortal.run(content, again)
        assert table_of(spark, location, "ID") == [(1,), (3,), (5,)][: 2 + later], changes_left
        assert table_of(spark, f"{location}_quarantine", "ID") == [(2,), (4,), (6,)][: 2 + later], changes_left
    assert finished


def test_watermark_is_read_from_the_transaction_id_in_the_log() -> None:
    window = Window('a (b), "c"\n', "number", None, str(Decimal("1.5")))
    advance = Advance("d", "it's, (1)", 3, {"s": window}, aside=True)
    assert advance.transaction.moves
    assert not Advance("d", "r", 3, {"s": Window("c", "number", "1", "1")}, aside=False).transaction.moves
    assert "\n" not in advance.transaction.application
