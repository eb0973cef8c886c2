"""Test values that do not fit a schema: reported with position, quarantined or dropped."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from datasets.files import dataset, run_of
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.dry_run import plan_run
from deltaic_datasets.run.expectations import ExpectationVerdict
from deltaic_datasets.run.run_state import target_of
from deltaic_pipeline.failures import PipelineError, exit_code
from deltaic_pipeline.publish import PublishJob, publish
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.malformed_rows import FILE, MISFIT, RAW
from deltaic_pipeline.table.sources import Source, read
from deltaic_pipeline.table.target import DeltaTarget
from deltaic_pipeline.table.transactions import Transaction, exists
from deltaic_pipeline.table.writing import write
from deltaic_terminal.progress import silent
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SCHEMA = "id INT NOT NULL, name STRING, dose DECIMAL(6,2), day DATE"
NESTED = "id INT, name STRING, at STRUCT<site: STRING, room: INT>, xs ARRAY<INT>, m MAP<STRING, DECIMAL(4,1)>"

LINES: dict[str, tuple[str, list[str] | None]] = {
    "all is right": ('1,"a;b",1.50,2026-03-01', None),
    "nothing but a key": ("1,,,", None),
    "quoted empty texts": ('1,"","",""', None),
    "quotes within quotes": ('1,"a ""b"" c",,', None),
    "a backslash": ('1,"a\\",1,', None),
    "a zero more": ("1,a,1.500,", None),
    "no number": ("x,a,,", ["id is not INT"]),
    "a fraction": ("1.5,a,,", ["id is not INT"]),
    "too large a number": ("3000000000,a,,", ["id is not INT"]),
    "more digits than the column has": ("1,a,1.234,", ["dose is not DECIMAL(6,2)"]),
    "more digits before the point": ("1,a,12345.5,", ["dose is not DECIMAL(6,2)"]),
    "rounds to more digits than it has": ("1,a,9999.999,", ["dose is not DECIMAL(6,2)"]),
    "no day": ("1,a,,2026-02-30", ["day is not DATE"]),
    "several columns": ("x,a,y,z", ["id is not INT", "dose is not DECIMAL(6,2)", "day is not DATE"]),
    "null where it must not be": (",a,,", ["id is null, and the schema says NOT NULL"]),
    "quoted empty where no null may be": ('"",a,,', ["id is null, and the schema says NOT NULL"]),
    "too few values": ("1,a", ["does not have one value for each column"]),
    "too many values": ("1,a,,,", ["does not have one value for each column"]),
    "a line break in quotes": (
        '1,"a',
        ["does not have one value for each column: a line break within quotes needs the option `multiLine: true`"],
    ),
    "another encoding": (
        "1,Z\udcfcrich,,",
        ["name is not text in the files' encoding: set the option `encoding`"],
    ),
}

NO_TEXT = "is not Unicode text: name the `encoding` of the files if it is not UTF-8"
OBJECTS: dict[str, tuple[str, list[str] | None]] = {
    "all is right": ('{"id": 1, "name": "", "at": {"site": "a", "room": 2}, "xs": [1], "m": {"k": 1.5}}', None),
    "nothing": ("{}", None),
    "an object as text": ('{"name": {"a": 1}}', None),
    "no number": ('{"id": "one"}', ["id is not INT"]),
    "an empty text for a number": ('{"id": ""}', ["id is not INT"]),
    "within a struct": ('{"at": {"site": "a", "room": "b"}}', ["at.room is not INT"]),
    "no struct": ('{"at": "a"}', ["at is not STRUCT"]),
    "within an array": ('{"xs": [1, "b"]}', ["xs is not ARRAY<INT>"]),
    "rounded within a map": ('{"m": {"k": 1.25}}', ["m is not MAP<STRING,DECIMAL(4,1)>"]),
    "two objects": ('{"id": 1}{"id": 2}', ["is not one JSON object"]),
    "an object and more": ('{"id": 1} x', ["is not one JSON object"]),
    "an array": ('[{"id": 1}]', ["is not one JSON object"]),
    "null": ("null", ["is not one JSON object"]),
    "half an object": ('{"id": 1, "na', ["is not one JSON object"]),
    "another field": ('{"id": 1, "more": 1}', ["has fields that the schema does not have: more"]),
    "a number that keeps its digits as text": ('{"name": 1.10, "id": "1"}', None),
    "another field within a struct": ('{"at": {"door": 1}}', ["at has fields that the schema does not have: door"]),
    "a field in another case": ('{"at": {"Site": "a"}}', ["at has fields that the schema does not have: Site"]),
    "a field twice": ('{"id": 1, "id": 2}', ["has a field twice"]),
    "a field twice within a struct": ('{"at": {"site": "a", "site": "b"}}', ["at has a field twice"]),
    "a key twice within a map": ('{"m": {"k": 1, "k": 2}}', ["m is not MAP<STRING,DECIMAL(4,1)>"]),
    "text for a struct": ('{"at": "{\\"site\\": \\"a\\"}"}', ["at is not STRUCT"]),
    "half a surrogate pair": ('{"name": "\\ud83d"}', [NO_TEXT]),
    "the other half": ('{"name": "\\ude00\\ud83d"}', [NO_TEXT]),
    "a whole pair, and a backslash": ('{"name": "\\ud83d\\ude00 \\\\ud83d"}', None),
    "what no text has": ('{"name": "\\uffff"}', [NO_TEXT]),
    "an object closed twice": ('{"id": 1}} x', ["is not one JSON object"]),
    "an object in brackets that close": ('{"id": 1}, {"a": 0}] x', ["is not one JSON object"]),
    "a comma and more": ('{"id": 1}, "b": 2', ["is not one JSON object"]),
    "single quotes": ("{'id': 1}", ["is not one JSON object"]),
    "a number as a key": ("{1: 2}", ["has fields that the schema does not have: 1"]),
    "another encoding": ('{"name": "Z\udcfcrich"}', [NO_TEXT]),
}


def write_file(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode(errors="surrogateescape"))
    return str(file)


def flagged_rows(spark: "SparkSession", source: Source) -> list[dict[str, Any]]:
    followed = replace(source, malformed="quarantine")  # otherwise rows have no file name
    return [row.asDict() for row in read(spark, followed).flagged.collect()]


@dataclass(frozen=True)
class FlaggedFiles:
    """Files, one for each case, that are read together."""

    folder: Path
    rows: list[dict[str, Any]]

    def row(self, name: str) -> dict[str, Any]:
        """Return the only row of a file."""
        [row] = [row for row in self.rows if row[FILE] == f"file:{self.folder / name}"]
        return row


@pytest.fixture(scope="module")
def csv_files(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> FlaggedFiles:
    folder = tmp_path_factory.mktemp("csv")
    for number, (line, _) in enumerate(LINES.values()):
        write_file(folder, f"{number}.csv", f"id,name,dose,day\n{line}\n")
    return FlaggedFiles(folder, flagged_rows(spark, Source("csv", [str(folder)], schema=SCHEMA)))


@pytest.fixture(scope="module")
def json_files(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> FlaggedFiles:
    folder = tmp_path_factory.mktemp("json")
    for number, (line, _) in enumerate(OBJECTS.values()):
        write_file(folder, f"{number}.json", f"{line}\n\n \t\n")
    return FlaggedFiles(folder, flagged_rows(spark, Source("json", [str(folder)], schema=NESTED)))


@pytest.mark.parametrize("case", LINES)
def test_csv_line_fits_or_has_a_reason(csv_files: FlaggedFiles, case: str) -> None:
    line, reasons = LINES[case]
    row = csv_files.row(f"{[*LINES].index(case)}.csv")
    assert row[MISFIT] == reasons
    if reasons:
        assert next(csv.reader([row[RAW]])) == next(csv.reader([line.replace("\udcfc", "\ufffd")]))


@pytest.mark.parametrize("case", OBJECTS)
def test_json_line_fits_or_has_a_reason(json_files: FlaggedFiles, case: str) -> None:
    line, reasons = OBJECTS[case]
    row = json_files.row(f"{[*OBJECTS].index(case)}.json")
    assert (row[MISFIT], row[RAW]) == (reasons, line.replace("\udcfc", "\ufffd"))


def test_csv_rows_agree_with_plain_python(spark: "SparkSession", tmp_path: Path) -> None:
    random = Random(7)  # noqa: S311 -- a test's
    names = ["", "plain", 'quo"ted', "comma, here", " padded ", "back\\slash", "null", "ünï", None]
    ids, doses = ["1", "-7", "x", "1.5", "3000000000", None], ["1", "1.50", "1.234", "12345.5", "a", "-0.01", None]
    days = ["2026-03-01", "2026-02-30", "noon", None]
    rows = [[random.choice(texts) for texts in (ids, names, doses, days)] for _ in range(400)]
    lines = [",".join(cell(text, quoted=random.random() < 0.5) for text in row) for row in rows]
    file = write_file(tmp_path, "a.csv", "\n".join(['"id",name,dose,day', *lines, ""]))
    rows_ = flagged_rows(spark, Source("csv", [file], schema=SCHEMA))
    assert len(rows_) == len(rows)
    for row, got in zip(rows, rows_, strict=True):
        expected, wrong = plain_python(row)
        assert [reason.split()[0] for reason in got[MISFIT] or ()] == wrong, row
        assert wrong or [got["id"], got["name"], got["dose"], got["day"]] == expected, row


def cell(text: str | None, *, quoted: bool) -> str:
    if text is None:
        return ""
    needed = not text or any(sign in text for sign in '",')
    return '"' + text.replace('"', '""') + '"' if quoted or needed else text


def plain_python(row: list[str | None]) -> tuple[list[Any], list[str]]:
    """Return a row's values by plain Python, and the columns whose texts do not fit."""
    values: list[Any] = []
    wrong = []
    read_as: dict[str, Any] = {"id": int, "name": str, "dose": Decimal, "day": date.fromisoformat}
    for name, text in zip(("id", "name", "dose", "day"), row, strict=True):
        try:
            value: Any = read_as[name](text) if text else text
        except (ValueError, InvalidOperation):
            wrong.append(name)
            continue
        large = name == "id" and value is not None and abs(value) >= 2**31
        cut = name == "dose" and value and (round(value, 2) != value or abs(value) >= 10**4)
        if large or cut or (name == "id" and value is None):
            wrong.append(name)
        values.append(value)
    return values, wrong


def test_partition_folders_provide_their_columns(spark: "SparkSession", tmp_path: Path) -> None:
    for day, id_ in (("007", "1"), ("008", "x")):
        write_file(tmp_path, f"c/day={day}/a.csv", f"id\n{id_}\n")
        write_file(tmp_path, f"j/day={day}/a.json", f'{{"id": "{id_}"}}\n{{"id": 7}}\n')
    for source_format, folder in (("csv", "c"), ("json", "j")):
        for schema, days in (("id INT", {7, 8}), ("id INT, day STRING", {"007", "008"})):
            reading = read(spark, Source(source_format, [str(tmp_path / folder)], schema=schema))  # type: ignore[arg-type]
            rows_ = [row.asDict() for row in reading.flagged.collect()]
            assert {row["day"] for row in rows_} == days
            assert reading.count_rows() == (len(rows_), 1)
            assert reading.rows.columns == ["id", "day"]


POSITIONS: dict[str, tuple[str, dict[str, str], str]] = {
    "blank lines and comments": ("\n#c\nid,name\n\n1,a\n#x\n \t\n2,b\r\nx,c\n", {"comment": "#"}, ":9: id is not INT"),
    "no header": ("1,a\nx,b\n", {"header": "false"}, ":2: id is not INT"),
    "rows of several lines": ('id,name\n1,"a\nb"\nx,"c\nd"\n', {"multiLine": "true"}, ", row 2: id is not INT"),
    "another encoding": ("id,name\n1,Z\udcfcrich\nx,\udcfc\n", {"encoding": "ISO-8859-1"}, ":3: id is not INT"),
    "after many": ("id,name\n" + "1,a\n" * 5000 + "x,b\n", {}, ":5002: id is not INT"),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.long] * (case in {"no header", "another encoding"})) for case in POSITIONS],
)
def test_first_malformed_row_is_reported(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    text, options, report = POSITIONS[case]
    file = write_file(tmp_path, "odd [n]+%20 ü.csv", text)
    session = spark.newSession()
    session.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    reading = read(session, Source("csv", [f"{tmp_path}/*.csv"], options, "id INT, name STRING"))
    rows = reading.flagged.count()
    assert reading.misfit_message() == f"1 of {rows:,} rows do not fit the schema, the first is {file}{report}"


def arrivals(folder: Path, malformed: str | None, **more: Any) -> dict[str, Any]:
    """Return a source of two files with four rows each, of which three do not fit."""
    write_file(folder, "in/a.csv", 'id,name,dose,day\n1,"",1,\n2, b ,1.234,\n"3",c,"",\nsecret,d,2,2026-03-01\n')
    write_file(folder, "in/b.csv", "id,name,dose,day\n5,e,9,\n6,f\n7,g,0.5,2026-03-02\n8,,,\n")
    action = {"malformed": malformed} if malformed else {}
    return {"format": "csv", "paths": [f"{folder}/in/*.csv"], "schema": SCHEMA, **action, **more}


FITTING = [(1, ""), (3, "c"), (5, "e"), (7, "g"), (8, None)]
ASIDE = [
    ("2, b ,1.234,", "arrivals: dose is not DECIMAL(6,2)"),
    ("6,f", "arrivals: does not have one value for each column"),
    ("secret,d,2,2026-03-01", "arrivals: id is not INT"),
]
WRITES: Mapping[str, dict[str, Any]] = {
    "append": {"mode": "append"},
    "overwrite": {"mode": "overwrite"},
    "merge": {"mode": "merge", "keys": ["id"]},
}
MERGE = [pytest.param(mode, marks=[pytest.mark.long] * (mode != "merge")) for mode in WRITES]


# Such rows fail a run before it writes, in any mode.
@pytest.mark.parametrize("mode", MERGE)
def test_malformed_rows_fail_a_run_with_their_position_by_default(
    spark: "SparkSession", catalog: JobCatalog, place: Place, mode: str
) -> None:
    steps = [{"view": "v", "sql": "SELECT id, name FROM arrivals WHERE dose > 0 AND name > ''"}]
    content = dataset(
        place.location, sources={"arrivals": arrivals(place.folder, None)}, steps=steps, write=WRITES[mode]
    )
    with pytest.raises(PipelineError) as refusal:
        build(spark, run_of(content), catalog, silent)
    file = place.folder / "in" / "a.csv"
    assert refusal.value.message == (
        f"sources.arrivals: 3 of 8 rows do not fit the schema, the first is {file}:3: dose is not DECIMAL(6,2); "
        "correct the files, or choose in `malformed` what happens to such rows."
    )
    assert exit_code(refusal.value) == 1
    with pytest.raises(PipelineError, match=r"3 of 8 rows .*a\.csv:3: dose is not"):
        plan_run(spark, run_of(content))
    assert not exists(spark, DeltaTarget(place.location))


# Appended rows: test_malformed_json_is_quarantined and test_malformed_rows_of_a_stream_are_quarantined.
@pytest.mark.parametrize("mode", MERGE)
def test_malformed_rows_are_quarantined_as_text(
    spark: "SparkSession", catalog: JobCatalog, place: Place, mode: str
) -> None:
    expected = [{"expect": "range", "column": "id", "max": 7, "action": "quarantine"}]
    source = arrivals(place.folder, "quarantine")
    content = dataset(place.location, sources={"arrivals": source}, write=WRITES[mode], expectations=expected)
    report = plan_run(spark, run_of(content))
    assert (report.rows, report.written, report.quarantined, report.dropped) == (8, 4, 4, 0)
    assert "expectation sources.arrivals.malformed (quarantine): 3 of 8 rows" in report.lines()
    runs = ("one",) if mode == "merge" else ("one", "two")
    for run_id in runs:
        summary = build(spark, run_of(content, run_id), catalog, silent)
        assert (summary.rows, summary.quarantined, summary.dropped) == (8, 4, 0)
        assert summary.written + summary.unchanged == 4
        verdict = ExpectationVerdict("sources.arrivals.malformed", "quarantine", 3, "3 of 8 rows")
        assert summary.verdicts[0] == verdict
        again = build(spark, run_of(content, run_id), catalog, silent)
        assert again.repeated == summary.committed
        assert again.quarantined == (0 if again.repeated else 4)  # and the same four rows
    if mode == "merge":
        assert build(spark, run_of(content, "two"), catalog, silent).redelivered
    assert place.table().rows("id", "name") == sorted(FITTING[:4] * (2 if mode == "append" else 1), key=repr)
    aside = place.table("_quarantine").rows("id", "_raw", "_reasons", "_run")
    unread = [(None, raw, [reason]) for raw, reason in ASIDE]
    for run_id in runs:
        assert [row[:3] for row in aside if row[3] == run_id] == [(8, None, ["range_id"]), *unread]
    files = place.table("_quarantine").rows("_file")
    assert {Path(file).name for (file,) in files if file} == {"a.csv", "b.csv"}


def test_malformed_rows_are_dropped_and_counted(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    content = dataset(place.location, sources={"arrivals": arrivals(place.folder, "drop")})
    report = plan_run(spark, run_of(content))
    assert (report.rows, report.written, report.quarantined, report.dropped) == (8, 5, 0, 3)
    summary = build(spark, run_of(content), catalog, silent)
    assert (summary.rows, summary.written, summary.quarantined, summary.dropped) == (8, 5, 0, 3)
    assert place.table().rows("id", "name") == sorted(FITTING, key=repr)


def test_repeated_run_quarantines_malformed_rows(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    run = run_of(dataset(place.location, sources={"arrivals": arrivals(place.folder, "quarantine")}), "killed")
    write(spark, spark.sql("SELECT 1 AS id"), target_of(run.dataset), Transaction.of_run("killed", run.dataset.name))
    summary = build(spark, run, catalog, silent)
    assert (summary.version, summary.repeated, summary.quarantined) == (0, True, 3)
    assert place.table("_quarantine").rows("_raw") == [(raw,) for raw, _ in ASIDE]


@pytest.mark.parametrize(
    "malformed",  # test_stream_writes_every_batch_once ends with a malformed row that fails
    ["quarantine", *(pytest.param(action, marks=pytest.mark.long) for action in ("fail", "drop"))],
)
def test_malformed_rows_of_a_stream_are_quarantined(
    spark: "SparkSession", catalog: JobCatalog, place: Place, malformed: str
) -> None:
    source = arrivals(place.folder, malformed, options={"maxFilesPerTrigger": 1})
    stream = {"source": "arrivals", "checkpoint": f"{place.location}_checkpoint"}
    run = run_of(dataset(place.location, sources={"arrivals": source}, stream=stream))
    if malformed == "fail":
        with pytest.raises(PipelineError, match=r"of 4 rows do not fit .*[ab]\.csv:3: (dose is not|does not have)"):
            build(spark, run, catalog, silent)
        return
    summary = build(spark, run, catalog, silent)
    apart = (3, 0) if malformed == "quarantine" else (0, 3)
    assert (summary.batches, summary.rows, summary.written) == (2, 8, 5)
    assert (summary.quarantined, summary.dropped) == apart
    assert [(verdict.failing, verdict.message) for verdict in summary.verdicts] == [(3, "3 rows in 2 batches")]
    assert place.table().rows("id", "name") == sorted(FITTING, key=repr)
    if malformed == "quarantine":
        assert place.table("_quarantine").rows("_raw") == [(raw,) for raw, _ in ASIDE]


def test_malformed_json_is_quarantined(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    file = write_file(place.folder, "a.json", "".join(f"{line}\n" for line, _ in OBJECTS.values()))
    source = {"format": "json", "paths": [file], "schema": NESTED, "malformed": "quarantine"}
    summary = build(spark, run_of(dataset(place.location, sources={"s": source})), catalog, silent)
    wrong = sorted(line.replace("\udcfc", "\ufffd") for line, reasons in OBJECTS.values() if reasons)
    assert (summary.rows, summary.quarantined) == (len(OBJECTS), len(wrong))
    assert sorted(raw for (raw,) in place.table("_quarantine").rows("_raw")) == wrong


@pytest.mark.parametrize("schema", [None, pytest.param("id INT, name STRING", marks=pytest.mark.long)])
def test_malformed_rows_fail_a_publication(
    spark: "SparkSession", catalog: JobCatalog, place: Place, schema: str | None
) -> None:
    file = write_file(place.folder, "a.csv", 'id,name\n1,""\n2,secret,3\n')
    job = PublishJob(Source("csv", [file], schema=schema), DeltaTarget(place.location))
    with pytest.raises(PipelineError) as refusal:
        publish(spark, job, catalog)
    assert refusal.value.message.startswith(
        f"the source: 1 of 2 rows do not fit the schema, the first is {file}:3: does not have one value for each column"
    )
    complete_file = write_file(place.folder, "a.csv", 'id,name\n1,""\n2,\n')
    publish(spark, PublishJob(Source("csv", [complete_file], schema=schema), DeltaTarget(place.location)), catalog)
    assert place.table().rows("id", "name") == [(1, ""), (2, None)]
