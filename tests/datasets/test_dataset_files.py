"""Test checks of dataset files: each mistake has a line, a field and a remedy."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltaic.errors import NotFound
from deltaic_datasets.file.dataset_model import FileSource, json_schema
from deltaic_datasets.file.file_checks import WrongFile, check, dataset_of
from deltaic_datasets.file.file_text import text_of
from deltaic_datasets.file.schedule import check_schedule
from deltaic_datasets.file.sql_text import output_name_mistakes
from deltaic_datasets.run.job import main, summary_lines
from deltaic_datasets.run.run_state import RunSummary
from deltaic_ops.jobs.job_files import DatasetFile
from deltaic_pipeline.failures import PipelineError
from deltaic_terminal.document import Document, Unreadable
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parent.parent.parent

RIGHT = """\
name: doses
sources:
  inbox:
    format: csv
    paths: [s3://inbox/*.csv]
    schema: id BIGINT NOT NULL, day DATE, dose INT
    options: {sep: ";", header: true}
  people:
    format: jdbc
    url: jdbc:postgresql://host/db
    table: public.people
    user: reader
    password: {secret: people, field: password}
    partitions: {column: id, lower: 1, upper: 1000, count: 4}
steps:
  - view: few
    sql: |
      SELECT inbox.*
      FROM inbox JOIN people USING (id)
target:
  location: s3://lake/doses
  share: vaccines.acme.doses
write: {mode: merge, keys: [id]}
expectations:
  - {expect: not_null, columns: [id]}
  - {expect: freshness, column: day, within: 2 days}
schedule: {expression: "cron(0 6 * * ? *)", timezone: Europe/Berlin}
"""


def test_correct_file_has_no_findings() -> None:
    assert check(RIGHT).findings == []
    dataset, _ = dataset_of(RIGHT, "doses.yaml")
    assert dataset.last_view == "few"
    assert dataset.quarantine_location == "s3://lake/doses_quarantine"


SQL_LINE = RIGHT[: RIGHT.index("FROM inbox JOIN")].count("\n") + 1


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "message"),
    [
        pytest.param("name: doses", "nam: doses", 1, "nam", "did you mean name", id="unknown field"),
        pytest.param("name: doses\n", "", 1, "name", "is required", id="missing field"),
        pytest.param("format: csv", "format: xml", 3, "sources.inbox", "one of csv, json", id="unknown format"),
        pytest.param("paths: [s3://inbox/*.csv]", "paths: s3://x", 5, "sources.inbox.paths", "is a list", id="no list"),
        pytest.param("[s3://inbox/*.csv]", "[]", 5, "sources.inbox.paths", "empty", id="empty list"),
        pytest.param("header: true", "header: [1]", 7, "sources.inbox.options.header", "is text", id="option"),
        pytest.param("//host/db", "//me:pw@host/db", 10, "sources.people.url", "password", id="password in the URL"),
        pytest.param(
            "header: true",
            "mode: PERMISSIVE",
            7,
            "sources.inbox.options.mode",
            "use the field `malformed` instead",
            id="mode that makes nulls",
        ),
        pytest.param(
            "format: csv",
            "malformed: skip\n    format: csv",
            4,
            "sources.inbox.malformed",
            "drop or quarantine",
            id="malformed",
        ),
        pytest.param(
            "    schema: id BIGINT NOT NULL, day DATE, dose INT\n",
            "    malformed: drop\n",
            6,
            "sources.inbox.malformed",
            "declare one",
            id="malformed without a schema",
        ),
        pytest.param(
            "format: csv",
            "malformed: drop\n    format: parquet",
            4,
            "sources.inbox.malformed",
            "for CSV and JSON",
            id="malformed Parquet",
        ),
        pytest.param(
            RIGHT[RIGHT.index("    format: csv") : RIGHT.index("  people:")],
            "    format: json\n    paths: [s3://in]\n    schema: id INT\n    malformed: drop\n"
            "    options: {multiline: true}\n",
            7,
            "sources.inbox.malformed",
            "as a whole",
            id="malformed whole file",
        ),
        pytest.param(
            "//host/db", "//host/db?password=x", 10, "sources.people.url", "password", id="password at its end"
        ),
        pytest.param(
            "table: public.people", "query: x\n    table: y", 8, "sources.people", "table or query", id="both"
        ),
        pytest.param(
            "{secret: people, field: password}",
            "{field: x}",
            13,
            "sources.people.password",
            "environment or secret",
            id="password from nowhere",
        ),
        pytest.param(
            "password: {secret", "password: hunter2 #", 13, "sources.people.password", "mapping", id="in clear"
        ),
        pytest.param("count: 4", "count: 0", 14, "sources.people.partitions.count", "at least 1", id="number"),
        pytest.param("view: few", "view: inbox", 16, "steps[0].view", "earlier step", id="view twice"),
        pytest.param("view: few", "view: a few", 16, "steps[0].view", "letters, digits", id="view is a word"),
        pytest.param(
            "FROM inbox JOIN", "FROM inbx JOIN", SQL_LINE, "steps[0].sql", "did you mean inbox", id="unknown view"
        ),
        pytest.param("SELECT inbox.*", "DELETE", 17, "steps[0].sql", "nothing that writes", id="no query"),
        pytest.param("s3://lake/doses", "lake/doses", 21, "target.location", "s3://bucket", id="location"),
        pytest.param("vaccines.acme.doses", "doses", 22, "target.share", "SHARE.SCHEMA.TABLE", id="share"),
        pytest.param(
            "  share:",
            "  partition_by: [day]\n  cluster_by: [id]\n  share:",
            23,
            "target.cluster_by",
            "not both",
            id="both",
        ),
        pytest.param("mode: merge", "mode: upsert", 23, "write", "overwrite_partitions", id="mode"),
        pytest.param(", keys: [id]", "", 23, "write.keys", "is required", id="merge without keys"),
        pytest.param(
            "keys: [id]}",
            "keys: [id], delete_when: op =}",
            23,
            "write.delete_when",
            "ends within an expression",
            id="half a condition",
        ),
        pytest.param(
            "keys: [id]}", "keys: [id], delete_when: [op]}", 23, "write.delete_when", "is text", id="two conditions"
        ),
        pytest.param(
            "{mode: merge, keys: [id]}",
            "{mode: append, delete_when: op}",
            23,
            "write.delete_when",
            "not a field",
            id="deletes without keys",
        ),
        pytest.param(
            RIGHT[RIGHT.index("  people:") :],
            "target: {location: s3://lake/doses}\nwrite: {mode: merge, keys: [id], delete_when: dosis > 4}\n",
            9,
            "write.delete_when",
            "'dosis' is not a column of the rows: did you mean dose",
            id="condition's column",
        ),
        pytest.param(
            "keys: [id]}", "keys: [id], delete_missing: D}", 23, "write.delete_missing", "true or false", id="missing"
        ),
        pytest.param(
            "{mode: merge, keys: [id]}",
            "{mode: overwrite, delete_missing: true}",
            23,
            "write.delete_missing",
            "not a field",
            id="missing without keys",
        ),
        pytest.param(
            "keys: [id]}",
            "keys: [id], delete_missing: true, at_most: 5}",
            23,
            "write.at_most",
            "is text",
            id="limit without a unit",
        ),
        pytest.param(
            "keys: [id]}",
            "keys: [id], delete_missing: true, at_most: 101 %}",
            23,
            "write.at_most",
            "a share or a number",
            id="limit above all",
        ),
        pytest.param(
            "keys: [id]}", "keys: [id], at_most: 5 %}", 23, "write.at_most", "delete_missing", id="limit of nothing"
        ),
        pytest.param(
            RIGHT[RIGHT.index("  people:") :],
            "    malformed: drop\ntarget: {location: s3://lake/doses}\n"
            "write: {mode: merge, keys: [id], delete_missing: true}\n",
            8,
            "sources.inbox.malformed",
            "leaves out rows with unknown keys",
            id="missing and malformed",
        ),
        pytest.param(
            RIGHT[RIGHT.index("    options: {sep") :],
            "    options:\n      ignoreMissingFiles: true\ntarget: {location: s3://lake/doses}\n"
            "write: {mode: scd2, keys: [id], delete_missing: true}\n",
            8,
            "sources.inbox.options.ignoreMissingFiles",
            "skips files or rows of the source",
            id="missing and missing files",
        ),
        pytest.param(
            RIGHT[RIGHT.index("  people:") :],
            "target: {location: s3://lake/doses}\nwrite:\n  mode: merge\n  keys: [id]\n  delete_missing: true\n"
            "stream: {source: inbox, checkpoint: s3://lake/cp}\n",
            12,
            "write.delete_missing",
            "needs full extracts",
            id="missing in a stream",
        ),
        pytest.param(
            RIGHT[RIGHT.index("  people:") :],
            "    only_new: true\ntarget: {location: s3://lake/doses}\n"
            "write: {mode: merge, keys: [id], delete_missing: true}\n",
            8,
            "sources.inbox.only_new",
            "would delete all other keys",
            id="missing of what is new",
        ),
        pytest.param(
            RIGHT[RIGHT.index("    partitions: {column") :],
            "    watermark: {column: id, start: 0}\nsteps: [{view: few, sql: SELECT * FROM people}]\n"
            "target: {location: s3://lake/doses}\nwrite: {mode: merge, keys: [id], delete_missing: true}\n",
            14,
            "sources.people.watermark",
            "would delete all other keys",
            id="missing above a mark",
        ),
        pytest.param(
            "{mode: merge, keys: [id]}", "{mode: append, keys: [id]}", 23, "write.keys", "not a field", id="keys"
        ),
        pytest.param(
            "{mode: merge, keys: [id]}", "{mode: overwrite_partitions}", 23, "write.where", "required", id="partitions"
        ),
        pytest.param(
            "keys: [id]}", "keys: [id]}\nquarantine: s3://lake/doses/bad", 24, "quarantine", "outside", id="quarantine"
        ),
        pytest.param(
            "keys: [id]}",
            "keys: [id]}\nstream: {source: people, checkpoint: s3://lake/cp}",
            24,
            "stream.source",
            "database",
            id="stream of a database",
        ),
        pytest.param(
            "{mode: merge, keys: [id]}",
            "{mode: overwrite}\nstream: {source: inbox, checkpoint: s3://lake/cp}",
            23,
            "write.mode",
            "every batch",
            id="stream that overwrites",
        ),
        pytest.param(
            "keys: [id]}",
            "keys: [id]}\nstream: {source: inbox, checkpoint: s3://lake/cp, trigger: 5 minutes}",
            24,
            "stream.trigger",
            "is not a field here",
            id="trigger",
        ),
        pytest.param(
            RIGHT[RIGHT.index("    paths:") : RIGHT.index("target:")],
            "    paths: [s3://a/1, s3://a/2]\nstream: {source: inbox, checkpoint: s3://lake/cp}\n",
            5,
            "sources.inbox.paths",
            "give a glob",
            id="stream of two paths",
        ),
        pytest.param("expect: not_null", "expect: notnull", 25, "expectations[0]", "one of not_null", id="expectation"),
        pytest.param(
            "{expect: not_null, columns: [id]}",
            "{expect: range, column: id}",
            25,
            "expectations[0]",
            "min, max",
            id="range",
        ),
        pytest.param(
            "{expect: not_null, columns: [id]}",
            "{expect: reference, columns: [id], to: nobody}",
            25,
            "expectations[0].to",
            "neither a source nor a step",
            id="reference",
        ),
        pytest.param(
            "columns: [id]}",
            "columns: [id], action: tell}",
            25,
            "expectations[0].action",
            "write fail, drop",
            id="action",
        ),
        pytest.param(
            "columns: [id]}", "columns: [id], at_most: 5}", 25, "expectations[0].at_most", "is text", id="bare limit"
        ),
        pytest.param(
            "columns: [id]}", "columns: [id], at_most: 101 %}", 25, "expectations[0].at_most", "'1 %'", id="above all"
        ),
        pytest.param(
            "columns: [id]}",
            "columns: [id], action: warn, at_most: 1 %}",
            25,
            "expectations[0].at_most",
            "warn never keeps",
            id="warn with a limit",
        ),
        pytest.param(
            "within: 2 days",
            "within: 2 days, at_most: 1 row",
            26,
            "expectations[1].at_most",
            "not a field here",
            id="freshness with a limit",
        ),
        pytest.param(
            "within: 2 days",
            "within: 2 days, action: drop",
            26,
            "expectations[1].action",
            "write fail",
            id="freshness drops",
        ),
        pytest.param("within: 2 days", "within: soon", 26, "expectations[1].within", "'5 minutes'", id="duration"),
        pytest.param("? *)", "* *)", 27, "schedule.expression", "exactly one", id="schedule"),
        pytest.param("Europe/Berlin", "Berlin", 27, "schedule.timezone", "Europe/Berlin", id="time zone"),
        pytest.param(
            "target:\n", "target: &t\n  location: s3://a/b\n", 22, "target.location", "written twice", id="twice"
        ),
        pytest.param("keys: [id]}", "keys: [id}", 23, "", "not YAML", id="no YAML"),
        pytest.param("user: reader", "user: NO", 12, "sources.people.user", "write 'NO' in quotes", id="NO"),
        pytest.param(
            "[id]}\n  - {expect: f", "[010]}\n  - {expect: f", 25, "expectations[0].columns[0]", "010", id="octal"
        ),
        pytest.param("share: v", "columns: {on: x}\n  share: v", 22, "target.columns", "'on' in quotes", id="key"),
        pytest.param(
            '{sep: ";", header: true}', "{sep: 10:30}", 7, "sources.inbox.options.sep", "'10:30' in quotes", id="time"
        ),
        pytest.param("name: doses", "name: doses\n\tx: 1", 2, "", "(indent with spaces)", id="tabs"),
        pytest.param("name: doses", "name: 2027-13-01", 1, "", "month must be in", id="no date"),
        pytest.param(RIGHT, "", 1, "", "schema", id="empty file"),
        pytest.param(RIGHT, "- 1", 1, "", "no `field: value` lines", id="a list"),
        pytest.param(RIGHT, "id,name\n1,x\n", 1, "", "no `field: value` lines", id="a CSV"),
    ],
)
def test_mistake_is_reported_with_its_line_and_field(
    before: str, after: str, line: int, field: str, message: str
) -> None:
    assert before in RIGHT
    checked = check(RIGHT.replace(before, after, 1))
    assert checked.dataset is None
    assert (line, field) in {(mistake.line, mistake.field) for mistake in checked.mistakes}, checked.findings
    assert any(message in mistake.message for mistake in checked.mistakes), checked.findings
    with pytest.raises(WrongFile, match=rf"(?m)^a\.yaml:{line}: {re.escape(field)}"):
        dataset_of(RIGHT.replace(before, after, 1), "a.yaml")


ALONE = """\
name: doses
sources:
  inbox:
    format: csv
    paths: [s3://inbox/*.csv]
    schema: |
      id BIGINT,
      `dose (mg)` INT
target: {location: s3://lake/doses}
write: {mode: append}
"""


def test_column_name_that_delta_refuses_is_reported_with_a_remedy() -> None:
    [mistake] = check(ALONE).mistakes
    assert (mistake.line, mistake.field) == (8, "sources.inbox.schema")
    assert "SELECT `dose (mg)` AS" in mistake.message
    assert "delta.columnMapping.mode: name" in mistake.message
    properties = "target: {properties: {delta.columnMapping.mode: name}, "
    assert check(ALONE.replace("target: {", properties)).mistakes == []
    step = "steps: [{view: v, sql: SELECT id FROM inbox}]"
    assert check(ALONE.replace("write:", f"{step}\nwrite:")).mistakes == []


STEPS = {
    "an alias": ("SELECT id AS `the id` FROM inbox", "steps[0].sql: the column 'the id'"),
    "an aggregate without a name": (
        "SELECT id, count(*) FROM inbox GROUP BY id",
        "steps[0].sql: the column 'COUNT(*)'",
    ),
    "a source's own column": ("SELECT * FROM inbox", "sources.inbox.schema: the column 'dose (mg)'"),
    "two queries": ("SELECT id AS `a,b` FROM inbox UNION ALL SELECT id FROM inbox", "the column 'a,b'"),
}


@pytest.mark.parametrize("case", STEPS)
def test_column_name_of_steps_is_checked_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    sql, message = STEPS[case]
    (tmp_path / "a.csv").write_text("id,dose (mg)\n1,2\n")
    file = tmp_path / "doses.yaml"
    steps = f"steps: [{{view: a, sql: {json.dumps(sql)}}}, {{view: b, sql: SELECT * FROM a}}]\n"  # noqa: S608 -- a test's own
    text = re.sub("paths: .*", f"paths: ['{tmp_path}/*.csv']", ALONE).replace("s3://lake/doses", f"{tmp_path}/doses")
    file.write_text(text.replace("write:", f"{steps}write:"))
    assert main([str(file)]) == 1
    assert message in capsys.readouterr().err
    for accepted in (
        "SELECT id AS a FROM inbox",
        "SELECT * EXCEPT (`dose (mg)`) FROM inbox",
        "SELECT a.id FROM inbox a",
    ):
        assert not list(output_name_mistakes(dataset_of(file.read_text().replace(json.dumps(sql), accepted), "")[0]))


def test_options_that_accept_invalid_json_are_refused() -> None:
    text = ALONE.replace("format: csv", "format: json\n    options: {allowSingleQuotes: true, allowOverwrites: true}")
    assert [mistake.field for mistake in check(text).mistakes][:1] == ["sources.inbox.options.allowSingleQuotes"]
    assert not any("allowOverwrites" in mistake.field for mistake in check(text).mistakes)


def test_all_mistakes_are_reported_in_the_order_of_their_lines() -> None:
    text = (
        RIGHT.replace("name: doses", "nam: doses").replace("FROM inbox", "FROM inbx").replace("mode: merge", "mode: x")
    )
    text = text.replace("2 days", "soon").replace("Europe/Berlin", "Mars")
    lines = [mistake.line for mistake in check(text).mistakes]
    assert lines == sorted(lines)
    assert {1, SQL_LINE, 23, 26, 27} <= set(lines)


def test_sql_that_only_spark_can_check_is_a_warning() -> None:
    checked = check(RIGHT.replace("SELECT inbox.*", "SELECT id:a.b[0]::int"))
    assert [(mistake.line, mistake.field, mistake.doubtful) for mistake in checked.findings] == [
        (18, "steps[0].sql", True)
    ]
    assert checked.dataset is not None


def test_secrets_in_a_file_are_not_shown() -> None:
    text = RIGHT.replace("//host/db", "//me:hunter2@host/db").replace("{secret: people", "hunter2 #")
    assert "hunter2" not in " ".join(map(str, check(text).findings))


@pytest.mark.parametrize(
    "expression",
    [
        "rate(5 minutes)",
        "rate(1 hour)",
        "at(2026-12-31T06:00:00)",
        "cron(0 6 * * ? *)",
        "cron(0/15 8-18 ? * MON-FRI *)",
        "cron(0 0 L * ? *)",
        "cron(0 0 15W JAN,JUL ? 2026-2030)",
        "cron(0 0 ? * 6L *)",
        "cron(0 0 ? * TUE#2 *)",
    ],
)
def test_schedules_of_the_user_guide_are_accepted(expression: str) -> None:
    # Examples from the user guide of EventBridge Scheduler, "Schedule types".
    assert check_schedule(expression) == expression


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 6 * * *", "cron"),
        ("cron(0 6 * * *)", "six fields"),
        ("cron(60 6 * * ? *)", "minutes field has '60'"),
        ("cron(0 24 * * ? *)", "hours"),
        ("cron(0 6 * * * *)", "exactly one"),
        ("cron(0 6 ? * ? *)", "exactly one"),
        ("cron(0 6 * 13 ? *)", "month"),
        ("cron(0 6 ? * 8 *)", "day of week"),
        ("cron(0 9-6 * * ? *)", "ends before"),
        ("cron(0/0 6 * * ? *)", "step"),
        ("cron(0 6 * * ? 1900)", "year"),
        ("rate(0 minutes)", "whole number"),
        ("rate(5 minute)", "5 minutes"),
        ("rate(5 weeks)", "minutes, hours or days"),
        ("at(2026-02-30T06:00:00)", "yyyy-mm-dd"),
    ],
)
def test_other_schedules_are_refused(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_schedule(expression)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param("a: &a\n- *a", 1, "recursion", id="an alias of itself"),
        pytest.param("name: x\n" * 9000, 101, "is written twice", id="one field nine thousand times"),
        pytest.param(
            "".join(f"nome{n}: x\n" for n in range(9000)), 1, "not a field", id="nine thousand unknown fields"
        ),
        pytest.param(
            "steps:\n" + "- {view: a, sql: SELECT 1 FROM b}\n" * 3000, 1, "the maximum is 500", id="thousands of steps"
        ),
    ],
)
def test_oversized_file_is_refused_with_few_mistakes(text: str, line: int, message: str) -> None:
    checked = check(text)
    assert checked.dataset is None
    assert any(mistake.line == line and message in mistake.message for mistake in checked.mistakes), checked.mistakes[
        :3
    ]
    assert len(checked.findings) < 1000


def test_yaml_aliases_are_accepted() -> None:
    text = RIGHT.replace("columns: [id]", "columns: &id [id]")
    text = text.replace("{expect: freshness", "{expect: unique, columns: *id}\n  - {expect: freshness")
    dataset, _ = dataset_of(text, "a.yaml")
    assert [mistake.about for mistake in dataset.expectations] == [["id"], ["id"], ["day"]]


def test_deeply_nested_sql_is_a_warning() -> None:
    checked = check(RIGHT.replace("SELECT inbox.*", f"SELECT {'(' * 3000}1{')' * 3000} AS one"))
    assert [mistake.doubtful for mistake in checked.findings] == [True]


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RIGHT.replace("[s3://inbox/*.csv]", "[in/*.csv, ../a.csv, /b.csv, 'file:/c.csv', s3a://c/d]")

    def paths(file: str) -> list[str]:
        source = dataset_of(text, file)[0].sources["inbox"]
        assert isinstance(source, FileSource)
        return source.paths

    folder = tmp_path / "day[1]"
    folder.mkdir()
    below = str(folder).replace("[", "\\[").replace("]", "\\]")
    expected = [f"{below}/in/*.csv", f"{below}/../a.csv", "/b.csv", "file:/c.csv", "s3a://c/d"]
    assert paths(f"{folder}/doses.yaml") == expected
    monkeypatch.chdir(folder)
    assert paths("doses.yaml") == expected
    assert paths("s3://lake/datasets/doses.yaml")[:2] == ["s3://lake/datasets/in/*.csv", "s3://lake/datasets/../a.csv"]


def test_local_paths_are_refused_for_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "doses.yaml"
    file.write_text(RIGHT)
    assert DatasetFile.read(str(file)).dataset.name == "doses"
    for path in ("in/*.csv", "/in/*.csv"):
        file.write_text(RIGHT.replace("s3://inbox/*.csv", path))
        message = r"doses\.yaml:5: sources\.inbox\.paths\[0\]: a job on a cluster cannot read files on this machine"
        with pytest.raises(PipelineError, match=message):
            DatasetFile.read(str(file))


def test_oversized_and_missing_files_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("# a comment\n" * 200_000)
    with pytest.raises(PipelineError, match=r"large\.yaml is larger than 128,000 bytes"):
        text_of(str(large))
    with pytest.raises(NotFound, match="there is no file"):
        text_of(str(tmp_path / "none.yaml"))


NAMES = st.text("abc xyz:#'\"-0", min_size=1, max_size=8)
TREES = st.recursive(
    st.integers() | st.text("ab: #'\n-", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, TREES, min_size=1, max_size=4), st.booleans())
def test_every_value_has_its_line(tree: dict[str, Any], flow: bool) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow, sort_keys=False)
    document = Document.read(text)
    assert document.value == tree
    lines = text.split("\n")
    for name in tree:
        place = document.position((name,))
        assert place.field == name
        assert 1 <= place.line <= len(lines)
        # The text before the line never contains the complete value.
        above = "\n".join(lines[: place.line - 1])
        try:
            assert name not in (yaml.safe_load(above) or {})
        except yaml.YAMLError:
            assert flow or place.line > 1


@given(st.text("ab:-{}[]#'\"\n\t ,&*!|>%@`0", max_size=40))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        document = Document.read(text)
        lines = [document.position(()).line, *(finding.line for finding in check(text).findings)]
    except Unreadable as refused:
        lines = [mistake.line for mistake in refused.mistakes]
    assert lines
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)


def test_json_schema_has_all_fields_and_refuses_others() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {
        *(
            "name",
            "variables",
            "sources",
            "steps",
            "target",
            "write",
            "stream",
            "expectations",
            "quarantine",
            "schedule",
        ),
    }
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema
    assert "schema" in schema["$defs"]["FileSource"]["properties"]
    deletes = {"delete_when", "delete_missing", "at_most"}
    assert all(deletes <= schema["$defs"][part]["properties"].keys() for part in ("Merge", "Scd2"))


@pytest.mark.parametrize(
    ("limit", "right"),
    [
        *((text, True) for text in ("1 %", "0.5%", "100 %", "0 rows", "1 row", "100 rows")),
        *((text, False) for text in ("1", "1 percent", "-1 %", "1. %", "1e2 rows", "1.5 rows", " 1 %", 5, True)),
    ],
)
def test_json_schema_and_check_agree_on_limits(limit: object, right: bool) -> None:
    content = yaml.safe_load(RIGHT)
    content["expectations"][0]["at_most"] = limit
    assert Draft202012Validator(json_schema()).is_valid(content) == right
    assert (check(yaml.safe_dump(content)).dataset is not None) == right


def test_datasets_in_the_docs_are_correct() -> None:
    pages = sorted((ROOT / "docs").glob("pipeline*.md"))
    blocks = re.findall(r"```yaml\n(.*?)```", "".join(page.read_text() for page in pages), re.DOTALL)
    assert ["expectations:" in block for block in blocks].count(True) == 1
    variables = [{"day": "2026-11-22"} if "day: {" in block else {} for block in blocks]
    assert [check(block, values).findings for block, values in zip(blocks, variables, strict=True)] == [[]] * len(
        blocks
    )


def test_file_checks_do_not_import_spark() -> None:
    script = "import sys; import deltaic_datasets.file.file_checks; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_summary_shows_location_of_quarantined_rows() -> None:
    counts = {"numFiles": 1, "numOutputBytes": 1234}
    done = RunSummary(
        "r", "s3://lake/t", 3, repeated=False, rows=5, seconds=2.0, written=3, quarantined=2, metrics=counts
    )
    assert summary_lines(done, "s3://lake/aside") == [
        "run           r",
        "table         s3://lake/t",
        "version       3",
        "rows          5 read in 2.0 s",
        "written       3",
        "quarantined   2",
        'read them by  deltalake.DeltaTable("s3://lake/aside").to_pandas()',
        "numFiles      1",
    ]
    done = RunSummary("r", "s3://lake/t", 3, repeated=False, rows=5, seconds=2.0, written=5)
    assert "read them by" not in "".join(summary_lines(done, "s3://lake/aside"))
