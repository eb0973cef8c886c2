"""Test variables of dataset files: values, positions, and that no value is read as SQL."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from datasets.files import json_source
from deltaic_datasets.file.dataset_model import Condition, FileSource, JdbcSource, json_schema
from deltaic_datasets.file.file_checks import WrongFile, check, dataset_of
from deltaic_datasets.file.variable_values import literal, parse_value
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.run_state import Run
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_terminal.progress import silent
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pipeline.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USING = """\
name: doses
variables:
  day: {type: date}
  site: {type: string, default: north}
  least: {type: integer, default: -1}
  hour: {type: timestamp, default: 2026-01-01T05:00:00Z}
sources:
  inbox:
    format: csv
    paths:
      - s3://inbox/{{ site }}/{{ day }}/*.csv
      - "{{site}}/{{ day:year=%Y/month=%m }}/{{ hour:%H }}/{a,b}.csv"
    schema: id BIGINT NOT NULL, day DATE, dose INT
  orders:
    format: jdbc
    url: jdbc:postgresql://host/db
    query: SELECT * FROM orders WHERE day = {{ day }} AND least > {{ least }}
steps:
  - view: few
    sql: |
      -- what {{ site }} sent
      SELECT *, {{ site }} AS site
      FROM inbox WHERE day >= {{ day }} AND dose -{{ least }} > 0
write: {mode: overwrite_partitions, where: "day = {{ day }}"}
target: {location: "s3://lake/doses"}
expectations:
  - {expect: sql, name: recent, condition: "day <= {{ run_date }}"}
"""


def test_variables_are_replaced_in_paths_queries_and_conditions() -> None:
    values = {"day": "2026-11-22", "run_date": "2026-11-23"}
    dataset, document = dataset_of(USING, "/data/doses.yaml", values)
    inbox, orders, [rule] = dataset.sources["inbox"], dataset.sources["orders"], dataset.expectations
    assert isinstance(inbox, FileSource)
    assert isinstance(orders, JdbcSource)
    assert isinstance(rule, Condition)
    assert inbox.paths == [
        "s3://inbox/north/2026-11-22/*.csv",
        "/data/north/year=2026/month=11/05/{a,b}.csv",
    ]
    assert orders.query == "SELECT * FROM orders WHERE day = DATE '2026-11-22' AND least > (-1)"
    assert dataset.steps[0].sql == (
        "-- what {{ site }} sent\nSELECT *, CAST(X'6e6f727468' AS STRING) AS site\n"
        "FROM inbox WHERE day >= DATE '2026-11-22' AND dose -(-1) > 0\n"
    )
    assert dataset.write.model_dump()["where"] == "day = DATE '2026-11-22'"
    assert rule.condition == "day <= DATE '2026-11-23'"
    assert set(document.used) == {"day", "site", "least", "hour", "run_date"}


def test_missing_value_is_a_warning_without_a_run() -> None:
    [doubt] = check(USING).findings
    assert str(doubt) == "variables.day: perhaps: has no default: a run needs --set day=2026-11-22"
    assert doubt.line == 3
    with pytest.raises(WrongFile, match=r"^d\.yaml:3: variables\.day: has no default: a run needs --set day="):
        dataset_of(USING, "d.yaml")


@pytest.mark.parametrize(
    ("before", "after", "values", "line", "field", "message"),
    [
        pytest.param("", "", {"day": "tomorrow"}, 3, "variables.day", "'tomorrow' is not of the type date", id="value"),
        pytest.param("", "", {"day": "2026-02-30"}, 3, "variables.day", "such as 2026-11-22", id="no day"),
        pytest.param("", "", {"dya": "1"}, 2, "variables", "has no 'dya', .*did you mean day", id="unknown, given"),
        pytest.param("", "", {"least": "1.5"}, 5, "variables.least", "type integer", id="no integer"),
        pytest.param("", "", {"least": "1" + "0" * 19}, 5, "variables.least", "type integer", id="beyond 64 bits"),
        pytest.param("-1", "x", {}, 5, "variables.least.default", "'x' is not of the type integer", id="default"),
        pytest.param("type: date", "type: day", {}, 3, "variables.day.type", "write string, integer", id="type"),
        pytest.param("  least", "  run_date", {}, 5, "variables.run_date.type", "date or timestamp", id="run_date"),
        pytest.param("north}", "north, oops: 1}", {}, 4, "variables.site.oops", "is not a field here", id="field"),
        pytest.param("day >= {{ day }}", "day >= {{ dya }}", {}, 23, "steps[0].sql", "mean day", id="name"),
        pytest.param("day >= {{ day }}", "day >= '{{ day }}'", {}, 23, "steps[0].sql", "without quotes", id="quotes"),
        pytest.param("day >= {{ day }}", "day >= {{ day|upper }}", {}, 23, "steps[0].sql", "write {{ na", id="filter"),
        pytest.param(
            "day >= {{ day }}", "day >= x{{ day }}", {}, 23, "steps[0].sql", "not within a name", id="in a name"
        ),
        pytest.param("day >= {{ day }}", "day >= {{ day:%Y }}", {}, 23, "steps[0].sql", "is only for paths", id="form"),
        pytest.param("least > {{ least }}", "s = {{ site }}", {}, 17, "sources.orders.query", "string", id="database"),
        pytest.param('= {{ day }}"}', '= `{{ day }}`"}', {}, 24, "write.where", "without quotes", id="where"),
        pytest.param("<= {{ run", "<= {{ rn", {}, 27, "expectations[0].condition", "mean run_date", id="condition"),
        pytest.param("{{ hour:%H }}", "{{ hour }}", {}, 12, "sources.inbox.paths[1]", "needs a format", id="hours"),
        pytest.param(
            "{{ hour:%H }}", "{{ hour:%c }}", {}, 12, "sources.inbox.paths[1]", "invalid format", id="other form"
        ),
        pytest.param(
            "{{ hour:%H }}", "{{ least:%H }}", {}, 12, "sources.inbox.paths[1]", "invalid format", id="number's"
        ),
        pytest.param("s3://inbox", "x{{ site }}://inbox", {}, 11, "sources.inbox.paths[0]", "scheme", id="scheme"),
        pytest.param(
            "name: doses",
            'name: "{{ site }}"',
            {},
            1,
            "name",
            "variables are only for paths, queries and conditions",
            id="elsewhere",
        ),
        *(
            pytest.param("", "", {"site": text}, 11, "sources.inbox.paths[0]", "a valid name in a path", id=repr(text))
            for text in (
                "..",
                "a/b",
                "/etc",
                "s3://x",
                "s3:",
                "*",
                "{a,b}",
                "a,b",
                "a\\b",
                "",
                ".",
                "a\nb",
                "a\0",
                "[a]",
            )
        ),
    ],
)
def test_mistake_of_a_variable_is_reported_with_its_line(  # noqa: PLR0917 -- a case
    before: str, after: str, values: Mapping[str, str], line: int, field: str, message: str
) -> None:
    assert before in USING
    checked = check(USING.replace(before, after, 1), {"day": "2026-11-22", **values})
    assert checked.dataset is None
    matches = [mistake for mistake in checked.mistakes if (mistake.line, mistake.field) == (line, field)]
    assert any(re.search(message, mistake.message) for mistake in matches), checked.findings


TEXT = "'{{ day }} {{x|y}}'"
WITHOUT_VARIABLES = """\
name: doses
sources:
  inbox: {format: json, paths: [s3://inbox], schema: a STRING}
steps: [{view: few, sql: "SELECT '{{ day }} {{x|y}}' AS template, \\"{{ }}\\" AS b FROM inbox"}]
write: {mode: append}
target: {location: "s3://lake/doses", comment: "{{ day }}"}
"""


def test_braces_remain_text_without_variables() -> None:
    dataset, _ = dataset_of(WITHOUT_VARIABLES, "d.yaml")
    assert dataset.steps[0].sql == "SELECT '{{ day }} {{x|y}}' AS template, \"{{ }}\" AS b FROM inbox"
    assert check(WITHOUT_VARIABLES).findings == []
    globs = WITHOUT_VARIABLES.replace("[s3://inbox]", "['s3://inbox/{{a,b},c}/{{d,e}}']")
    assert check(globs).findings == []


def test_unknown_variable_is_reported_without_declarations() -> None:
    for text in (
        WITHOUT_VARIABLES.replace("'{{ day }} {{x|y}}'", "{{ day }}"),
        WITHOUT_VARIABLES.replace("[s3://inbox]", "['s3://{{ day }}']"),
    ):
        [mistake] = check(text).mistakes
        assert "is not declared under `variables`" in mistake.message
    [doubt] = check(WITHOUT_VARIABLES.replace("{{ day }}", "{{ run_date }}", 1)).findings
    assert doubt.doubtful


def test_run_date_is_the_scheduled_day_in_its_time_zone_or_today() -> None:
    text = WITHOUT_VARIABLES.replace(TEXT, "{{ run_date }}").replace("{{ }}", "")
    before = datetime.now(UTC).date()
    by_hand = dataset_of(text, "d.yaml")[0].steps[0].sql
    assert any(f"DATE '{before + timedelta(days=n)}'" in by_hand for n in (0, 1))
    scheduled = {"run_date": "2026-11-22T23:30:00Z"}
    assert "DATE '2026-11-22'" in dataset_of(text, "d.yaml", scheduled)[0].steps[0].sql
    berlin = text + 'schedule: {expression: "cron(30 0 * * ? *)", timezone: Europe/Berlin}\n'
    assert "DATE '2026-11-23'" in dataset_of(berlin, "d.yaml", scheduled)[0].steps[0].sql
    hours = text + "variables: {run_date: {type: timestamp}}\n"
    assert "TIMESTAMP '2026-11-22 23:30:00.000000Z'" in dataset_of(hours, "d.yaml", scheduled)[0].steps[0].sql


def test_unquoted_braces_in_yaml_are_reported_with_a_remedy() -> None:
    for text in (USING.replace('"{{site}}', "{{site}}"), USING.replace('"day = {{ day }}"', "{{ day }}")):
        [mistake] = check(text).mistakes
        assert "quote what has {{ }}" in mistake.message


VALUES: dict[str, tuple[list[object], list[object]]] = {
    "string": (["", "it's", "é\n"], [1, 1.5, True, date(2026, 1, 1)]),
    "integer": ([0, -5, 2**63 - 1, "7"], ["1.0", "", 1.5, True, 2**63]),
    "number": ([1, 1.5, "1e-7", "-.5"], ["nan", "inf", "1e999", True, float("inf"), "1_0"]),
    "date": ([date(2026, 1, 1), "2026-02-28"], ["2026-2-1", "20260101", datetime(2026, 1, 1, tzinfo=UTC), 1]),
    "timestamp": (
        [
            datetime(2026, 1, 1, tzinfo=UTC),
            date(2026, 1, 1),
            "2026-01-01",
            "2026-01-01T05",
            "2026-01-01 05:06:07.5+02:00",
        ],
        ["now", "2026-W01", 1, "2026-01-01T25"],
    ),
    "boolean": ([True, "false", "TRUE"], ["yes", 1, "1", ""]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_value_of_another_type_is_refused(kind: Any) -> None:
    right, wrong = VALUES[kind]
    for each in right:
        parse_value(kind, each)  # type: ignore[arg-type]
    for each in wrong:
        with pytest.raises(ValueError, match=f"is not of the type {kind}: write a value such as"):
            parse_value(kind, each)  # type: ignore[arg-type]


def test_json_schema_describes_variables() -> None:
    content = json.loads(json.dumps(yaml.safe_load(USING), default=str))
    schema = Draft202012Validator(json_schema())
    assert schema.is_valid(content)
    for wrong in (
        {"type": "day"},
        {"default": 1},
        {"type": "date", "defualt": 1},
        "date",
        {"type": "date", "default": []},
    ):
        assert not schema.is_valid({**content, "variables": {"day": wrong}})


ANY = st.text(st.characters(codec="utf-8"), max_size=12)
HOSTILE = (
    ANY | st.text("./:\\*?{}[],~% \n'\"-;", max_size=6) | st.sampled_from(["..", "%2e%2e", "a/../..", "//", "s3://b"])
)


@given(HOSTILE)
def test_value_cannot_leave_its_segment_of_a_path(value: str) -> None:
    text = WITHOUT_VARIABLES.replace(TEXT, "1").replace("{{ }}", "")
    text = text.replace("[s3://inbox]", "['s3://inbox/a/{{ site }}/b', 'x{{ site }}.{{ site }}.json']")
    checked = check(f"{text}variables: {{site: {{type: string}}}}\n", {"site": value})
    if checked.dataset is None:
        assert all("is not a valid name in a path" in mistake.message for mistake in checked.mistakes)
        return
    source = checked.dataset.sources["inbox"]
    assert isinstance(source, FileSource)
    first, second = source.paths
    assert first.split("/") == ["s3:", "", "inbox", "a", value, "b"]
    assert "/" not in second
    assert not re.search(r"[*?{}\[\],\\:]|(^|/)\.\.?(/|$)", first.removeprefix("s3:") + second)


@given(ANY)
def test_string_literal_has_only_hexadecimal_digits(value: str) -> None:
    assert re.fullmatch(r"CAST\(X'[0-9a-f]*' AS STRING\)", literal(value))


INJECTION = "x' OR true --"
NASTY = [
    "it's", '"', "\\", "\\'", "' OR 1=1 --", "*/ DROP", "/*", "`", "${x}", ":name", "?", "a\nb", "\0", "", "é漢😀",
    "{{ other }}", "'); DELETE FROM t; --", "\\\\'", "r'", "X'41'", "%s", "_", " ",
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_spark_reads_every_literal_as_its_value(spark: "SparkSession") -> None:
    values: list[tuple[Any, Any]] = [("string", text) for text in NASTY]
    values += [("integer", n) for n in (0, -1, 7, 2**31, -(2**63) + 1, 2**63 - 1)]
    values += [("number", n) for n in (0.1, -0.5, 1e-7, 1e300, 3.0)] + [("boolean", True), ("boolean", False)]
    values += [("date", date(2026, 2, 28)), ("date", date(1, 1, 1))]
    values += [("timestamp", datetime(2026, 1, 1, 5, 6, 7, 890123, tzinfo=UTC))]
    columns = [f"0 IS NULL, {literal(value)}" for _, value in values]
    row: Any = spark.sql(f"SELECT {', '.join(columns)}").first()
    read = [each.astimezone(UTC) if isinstance(each, datetime) else each for each in row[1::2]]
    assert read == [value for _, value in values]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_dataset_is_built_for_its_variables(spark: "SparkSession", catalog: JobCatalog, place: Place) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        folder = place.folder / day
        folder.mkdir()
        json_source(folder, "doses", [{"id": n, "site": site, "day": day} for n, site in enumerate([INJECTION, "b"])])
    text = yaml.safe_dump({
        "name": "tried",
        "variables": {"day": {"type": "date"}, "site": {"type": "string"}},
        "sources": {
            "s": {"format": "json", "paths": ["{{ day }}/*.json"], "schema": "id INT, site STRING, day DATE"}
        },
        "steps": [{"view": "v", "sql": "SELECT *, {{ day }} AS meant FROM s WHERE site = {{ site }}"}],
        "target": {"location": place.location},
        "write": {"mode": "overwrite_partitions", "where": "day = {{ day }}"},
        "expectations": [{"expect": "sql", "name": "of_the_day", "condition": "day = {{ day }} AND site = {{ site }}"}],
    })  # fmt: skip
    file = str(place.folder / "tried.yaml")
    for number, day in enumerate(("2026-01-01", "2026-01-02")):
        dataset, _ = dataset_of(text, file, {"day": day, "site": INJECTION})
        build(spark, Run(dataset, f"r{number}"), catalog, silent)
    rows = [(str(day), str(meant), site) for day, meant, site in place.table().rows("day", "meant", "site")]
    assert rows == [(day, day, INJECTION) for day in ("2026-01-01", "2026-01-02")]
