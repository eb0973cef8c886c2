"""Dataset files on the command line: the schema, every mistake with its line, and a run that never starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Deltaic

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


def test_a_right_file_passes(nowhere: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "doses.yaml").write_text(RIGHT)
    assert "is a dataset" in nowhere.done(f"pipeline check {tmp_path}/doses.yaml")
    assert nowhere.json(f"pipeline check {tmp_path}/doses.yaml") == []


def test_mistakes_are_told_with_file_line_and_field(nowhere: Deltaic, tmp_path: Path) -> None:
    file = tmp_path / "doses.yaml"
    file.write_text(RIGHT.replace("append", "add").replace("target: {", "target: {shard: a.b.c, "))
    result = nowhere(f"pipeline check {file}")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{file}:4: target.shard: is not a field here: did you mean share?",
        f"{file}:5: write: mode is 'add': write one of overwrite, overwrite_partitions, append, merge, scd2",
    ]
    told = json.loads(nowhere(f"pipeline check {file} --json").stdout)
    assert [(one["line"], one["field"], one["mistake"]) for one in told] == [
        (4, "target.shard", True),
        (5, "write", True),
    ]


@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_missing_file_is_refused(deltaic: Deltaic, verb: str) -> None:
    result = deltaic(f"pipeline {verb} nothing.yaml")
    assert result.exit_code == 1
    assert "nothing.yaml" in result.stderr


def test_a_wrong_file_is_not_run(deltaic: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "doses.yaml").write_text(RIGHT.replace("s3://lake", "lake"))
    result = deltaic(f"pipeline run {tmp_path}/doses.yaml")
    assert result.exit_code == 1
    assert f"error: {tmp_path}/doses.yaml:4: target.location" in result.stderr


def test_a_table_is_looked_at_before_it_is_maintained(deltaic: Deltaic) -> None:
    result = deltaic("pipeline maintain s3://no-such-lake/table --dry-run --zorder-by id --keep 30")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert deltaic("pipeline maintain table").exit_code == 1
    assert deltaic("pipeline maintain s3://lake/table --checkpoint-after 0 --no-vacuum").exit_code == 1
    assert deltaic("pipeline maintain s3://lake/table --checkpoint-after none").exit_code == 2
