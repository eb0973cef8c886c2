"""Dataset files on the command line: the schema, every mistake with its line, and a run that never starts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltaic_ops.cli.jobs.jobs import job_line
from deltaic_ops.local.state_folder import announce_server, lock_state
from deltaic_pipeline.table.run_log import schema
from deltalake import write_deltalake

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws

RIGHT = """\
name: doses
sources:
  inbox: {format: csv, paths: [s3://inbox/*.csv], schema: "id BIGINT, dose INT"}
target: {location: s3://lake/doses}
write: {mode: append}
"""


def test_the_schema_is_json_schema(nowhere: Deltaic) -> None:
    schema = json.loads(nowhere.done("pipeline schema"))
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["required"] == ["name", "sources", "target", "write"]


def test_a_valid_file_passes(nowhere: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "doses.yaml").write_text(RIGHT)
    assert "is valid" in nowhere.done(f"pipeline check {tmp_path}/doses.yaml")
    assert nowhere.json(f"pipeline check {tmp_path}/doses.yaml") == []


def test_mistakes_are_reported_with_file_line_and_field(nowhere: Deltaic, tmp_path: Path) -> None:
    file = tmp_path / "doses.yaml"
    file.write_text(RIGHT.replace("append", "add").replace("target: {", "target: {shard: a.b.c, "))
    result = nowhere(f"pipeline check {file}")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{file}:4: target.shard: is not a field here: did you mean share?",
        f"{file}:5: write: mode is 'add': write one of overwrite, overwrite_partitions, append, merge, scd2",
    ]
    mistakes = json.loads(nowhere(f"pipeline check {file} --json").stdout)
    assert [(mistake["line"], mistake["field"], mistake["mistake"]) for mistake in mistakes] == [
        (4, "target.shard", True),
        (5, "write", True),
    ]


def test_a_file_is_checked_with_the_values_of_a_run(nowhere: Deltaic, tmp_path: Path) -> None:
    file = tmp_path / "doses.yaml"
    paths = "[s3://inbox/*.csv, 's3://a/{{ day }}']"
    file.write_text("variables: {day: {type: date}}\n" + RIGHT.replace("[s3://inbox/*.csv]", paths))
    output = nowhere.done(f"pipeline check {file}")
    assert f"{file}:1: variables.day: perhaps: has no default: a run needs --set day=2026-11-22" in output
    assert nowhere.json(f"pipeline check {file} --set day=2026-02-28") == []
    result = nowhere(f"pipeline check {file} --set day=soon")
    assert (result.exit_code, f"{file}:1: variables.day: 'soon' is not of the type date" in result.stdout) == (1, True)
    result = nowhere(f"pipeline check {file} --set day")
    assert (result.exit_code, "--set 'day' is not NAME=VALUE, such as day=" in result.stderr) == (1, True)


def test_runs_are_listed_without_spark(deltaic: Deltaic, tmp_path: Path) -> None:
    location = str(tmp_path / "doses")
    (tmp_path / "doses.yaml").write_text(RIGHT.replace("s3://lake/doses", location))
    missing = deltaic("pipeline runs doses.yaml")
    assert (missing.exit_code, f"no runs table at {location}_runs" in missing.stderr) == (1, True)
    began = datetime(2026, 1, 1, 6, tzinfo=UTC)
    expectations = [{"name": "low", "action": "warn", "at_most": None, "failing": 2, "met": False}]
    fields = {"dataset": "doses", "began": began, "seconds": 1.5, "expectations": [], "phases": []}
    rows = [
        {**fields, "run": "a", "exit": 0, "rows_read": 3, "rows_written": 3, "version_after": 0},
        {**fields, "run": "b", "exit": 3, "message": "too low", "expectations": expectations},
        {**fields, "run": "c", "exit": 0, "dataset": "others"},
    ]
    write_deltalake(f"{location}_runs", pa.Table.from_pylist(rows, schema()))
    output = deltaic.done("pipeline runs doses.yaml")
    assert re.search(r"doses +a +2026-01-01 06:00:00 +1\.5 s +0 +0 +3 +3", output), output
    assert re.search(r"doses +b .* low +too low", output), output
    assert "others" not in output
    assert [run["run"] for run in deltaic.json("pipeline runs doses.yaml --failed")] == ["b"]
    assert [run["run"] for run in deltaic.json(f"pipeline runs --runs {location}_runs")] == ["a", "b", "c"]
    assert "no matching runs" in deltaic.done(f"pipeline runs nobody --runs {location}_runs")
    nowhere = deltaic("pipeline runs doses")
    assert (nowhere.exit_code, "missing location of the runs table" in nowhere.stderr) == (1, True)


@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_missing_file_is_refused(deltaic: Deltaic, verb: str) -> None:
    result = deltaic(f"pipeline {verb} nothing.yaml")
    assert result.exit_code == 1
    assert "nothing.yaml" in result.stderr


def test_an_invalid_file_is_not_run(deltaic: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "doses.yaml").write_text(RIGHT.replace("s3://lake", "lake"))
    result = deltaic(f"pipeline run {tmp_path}/doses.yaml")
    assert result.exit_code == 1
    assert f"error: {tmp_path}/doses.yaml:4: target.location" in result.stderr


@pytest.mark.parametrize("verb", ["schedule", "run --on emr"])
@pytest.mark.parametrize(("minutes", "exit_code"), [("0", 2), ("10081", 2), ("10080", 1)])
def test_a_time_limit_is_between_a_minute_and_a_week(nowhere: Deltaic, verb: str, minutes: str, exit_code: int) -> None:
    result = nowhere(f"pipeline {verb} nothing.yaml --minutes {minutes}")
    assert result.exit_code == exit_code
    assert ("--minutes" in result.stderr) is (exit_code == 2)


def test_a_table_is_checked_before_maintenance(deltaic: Deltaic) -> None:
    result = deltaic("pipeline maintain s3://no-such-lake/table --dry-run --zorder-by id --keep 30")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert deltaic("pipeline maintain table").exit_code == 1
    assert deltaic("pipeline maintain s3://lake/table --checkpoint-after 0 --no-vacuum").exit_code == 1
    assert deltaic("pipeline maintain s3://lake/table --checkpoint-after none").exit_code == 2


def test_a_publication_finds_the_embedded_aws_by_its_state_folder(
    deltaic: Deltaic, embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    variables = {**embedded_aws.environment, **deltaic.variables}
    deltaic.variables = {}
    line = "pipeline publish --from a.csv --format csv --to s3://no-such-lake/t"
    with (
        lock_state(tmp_path / ".deltaic"),
        announce_server(tmp_path / ".deltaic", variables),
    ):
        assert deltaic(line).stderr.startswith("error: there is no bucket 'no-such-lake'")
    assert "`deltaic serve`" in deltaic(line).stderr


def test_the_options_of_publish_are_those_of_the_job(nowhere: Deltaic) -> None:
    output = nowhere("pipeline publish --help", UV_RUN_RECURSION_DEPTH="1")
    assert (output.exit_code, "--partition-by" in output.stdout) == (0, True)
    assert "\n  uv run deltaic pipeline publish --from " in output.stdout
    wrong = nowhere("pipeline publish --from a.csv --format xml")
    assert (wrong.exit_code, "Error: Invalid value for '--format': invalid choice: 'xml'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("pipeline run doses.yaml --dryrun", "--dry-run"),
        ("pipeline publish --from a.csv --format csv --to s3://b/t --partition day", "--partition-by"),
        ("pipeline maintain s3://b/t --no-vacum", "--no-vacuum"),
        ("usage collect --request a", "--requests"),
        ("view refresh --all --detatch", "--detach"),
    ],
)
def test_a_misspelled_option_of_a_job_suggests_the_nearest(nowhere: Deltaic, line: str, nearest: str) -> None:
    result = nowhere(line, UV_RUN_RECURSION_DEPTH="1")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Usage: uv run deltaic {' '.join(line.split()[:2])} [OPTIONS]")
    assert result.stderr.endswith(f": did you mean {nearest}?\n")


def test_emr_receives_parameters_that_are_no_request_fields() -> None:
    typed = "s3://b/t --zorder-by a --on emr --detach --minutes=7 --run-id r --wait 5 --memory=4g --no-sort --json"
    line = job_line(typed.split(), "maintain")
    assert line.for_emr() == ["s3://b/t", "--zorder-by", "a", "--wait", "5", "--no-sort", "--json"]
    assert (line.options.minutes, line.options.run_id, line.options.memory) == (7, "r", "4g")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--wait abc", "'abc' is not a number of seconds from 0 to 86400"),
        ("--wait -1", "'-1' is not a number of seconds from 0 to 86400"),
        ("--wait nan", "'nan' is not a number of seconds from 0 to 86400"),
        ("--minutes x", "'x' is not a number of minutes from 1 to 10080"),
        ("--minutes 0", "'0' is not a number of minutes from 1 to 10080"),
    ],
)
def test_an_invalid_number_is_reported_with_its_option(nowhere: Deltaic, option: str, message: str) -> None:
    refused = nowhere(f"pipeline run nothing.yaml {option}")
    assert (refused.exit_code, message in refused.output) == (2, True), refused.output
