"""Test backfills: their steps and run ids, interruption and failures."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import yaml
from datasets.files import dataset, json_source
from deltaic.errors import InvalidParameter
from deltaic_datasets.run.step_execution import Detail, StepResult, run_steps
from deltaic_datasets.run.time_steps import Backfill, BackfillStep, backfill_of
from deltaic_pipeline.failures import StepsFailed, exit_code
from deltaic_pipeline.table.catalog_entry import JobCatalog
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline.place import Place

FILE = """\
name: doses
variables:
  day: {type: date}
  hour: {type: timestamp, default: 2026-01-01}
  site: {type: string, default: north}
sources: {inbox: {format: json, paths: ["s3://in/{{ site }}/{{ day }}"], schema: day DATE}}
write: {mode: append}
target: {location: "s3://lake/doses"}
"""


def backfill(first: str, last: str, unit: str = "day", file: str = FILE, **more: Any) -> Backfill:
    arguments = {"variable": "day", **more}
    return backfill_of(file, "doses.yaml", arguments.pop("given", {}), first=first, last=last, unit=unit, **arguments)


@pytest.mark.parametrize(
    ("first", "last", "unit", "values"),
    [
        ("2026-01-30", "2026-02-02", "day", ["2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02"]),
        ("2026-01-01", "2026-01-01", "month", ["2026-01-01"]),
        ("2026-01-01", "2026-01-15", "week", ["2026-01-01", "2026-01-08", "2026-01-15"]),
        ("2026-01-01", "2026-01-14", "week", ["2026-01-01", "2026-01-08"]),
        ("2025-12-31", "2026-04-29", "month", ["2025-12-31", "2026-01-31", "2026-02-28", "2026-03-31"]),
        ("9999-12-30", "9999-12-31", "day", ["9999-12-30", "9999-12-31"]),
    ],
)
def test_steps_include_the_first_and_the_last_day(first: str, last: str, unit: str, values: list[str]) -> None:
    steps = backfill(first, last, unit).steps
    assert [step.value for step in steps] == values
    assert [step.run_id for step in steps] == [f"doses-{value}" for value in values]
    assert [step.variables for step in steps] == [{"day": value} for value in values]


def test_steps_of_a_timestamp_start_at_its_time() -> None:
    steps = backfill("2026-01-01T22", "2026-01-03", given={"day": "2026-01-01"}, variable="hour").steps
    assert [step.value for step in steps] == ["2026-01-01T22:00:00Z", "2026-01-02T22:00:00Z"]
    assert len({step.run_id for step in steps}) == 2


def test_run_ids_differ_by_values_and_have_at_most_64_characters() -> None:
    [north] = backfill("2026-01-01", "2026-01-01", given={"site": "north"}).steps
    [south] = backfill("2026-01-01", "2026-01-01", given={"site": "south"}).steps
    [again] = backfill("2026-01-01", "2026-01-01", run_id_prefix="again").steps
    assert len({north.run_id, south.run_id, "doses-2026-01-01"}) == 3
    assert again.run_id == "again-2026-01-01"
    long = FILE.replace("name: doses", f"name: _{'d' * 90}")
    ids = {step.run_id for step in backfill("2026-01-01", "2026-01-31", file=long).steps}
    assert len(ids) == 31
    assert max(map(len, ids)) <= 64
    assert all(run_id[0].isalnum() for run_id in ids)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first": "soon"}, "--from 'soon' is not of the type date"),
        ({"last": "2025-01-01"}, "--from 2026-01-01 is after --to 2025-01-01"),
        ({"variable": "site"}, "--variable site is not a date or timestamp variable: choose from day, hour"),
        ({"variable": ""}, "use --variable with a date or timestamp variable of the dataset: choose from day, hour"),
        ({"given": {"day": "2026-01-01"}}, "--set day is not allowed, because each step sets day"),
        ({"last": "2200-01-01"}, "more than 10,000 steps"),
    ],
)
def test_invalid_backfill_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        backfill(**{"first": "2026-01-01", "last": "2026-01-02", **arguments})


def test_dataset_without_dates_uses_run_date() -> None:
    without_dates = FILE.replace("{{ day }}", "{{ run_date }}").replace("  day: {type: date}\n", "")
    without_dates = without_dates.replace("  hour: {type: timestamp, default: 2026-01-01}\n", "")
    assert backfill("2026-01-01", "2026-01-01", file=without_dates, variable="").steps[0].variables == {
        "run_date": "2026-01-01"
    }
    with pytest.raises(InvalidParameter, match="declare one, such as"):
        backfill("2026-01-01", "2026-01-01", file=without_dates.replace("{{ run_date }}", "x"), variable="")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["done", "skipped", "failed"]), min_size=1, max_size=12),
    st.booleans(),
)
def test_every_step_runs_once_and_failures_are_listed(states: list[Any], following: bool) -> None:
    mode = "{mode: merge, keys: [day]}" if following else "{mode: append}"
    steps = backfill("2026-01-01", f"2026-01-{len(states):02}", file=FILE.replace("{mode: append}", mode))
    ran: list[str] = []
    events: list[dict[str, Any]] = []

    def run(step: BackfillStep, detail: Detail) -> StepResult:
        detail("running")
        ran.append(step.value)
        state = states[int(step.value[-2:]) - 1]
        return StepResult(state, "as asked", 3 if state == "failed" else 0)

    failed: list[str] = []
    with pytest.raises(StepsFailed) if "failed" in states else nullcontext() as raised:
        run_steps(steps, run, lambda _, event: events.append(event), as_json=True)
    if raised:
        assert exit_code(raised.value) == 3
        failed = [line.partition(":")[0] for line in raised.value.message.splitlines()[:-1]]
    last = states.index("failed") + 1 if following and "failed" in states else len(states)
    assert ran == [step.value for step in steps.steps[:last]]
    assert failed == [step.run_id for step, state in zip(steps.steps[:last], states, strict=False) if state == "failed"]
    *step_events, end = events
    assert [event["value"] for event in step_events] == ran
    assert end == {
        "event": "backfill",
        **{state: states[:last].count(state) for state in ("done", "skipped", "failed")},
        "left": len(states) - last,
    }


def test_unexpected_exception_ends_all_steps() -> None:
    def run(step: BackfillStep, _: Detail) -> StepResult:
        raise KeyboardInterrupt if step.value.endswith("01") else AssertionError(step)

    with pytest.raises(KeyboardInterrupt):
        run_steps(backfill("2026-01-01", "2026-01-02"), run, lambda *_: None, as_json=True)


class Days:
    """A folder with a file for each day, and a backfill process that reads it."""

    def __init__(self, place: Place, environment: Mapping[str, str], **parts: Any) -> None:
        self.place, self.environment = place, {**environment, "PATH": os.environ["PATH"]}
        content = dataset(
            place.location,
            variables={"day": {"type": "date"}},
            sources={"s": {"format": "json", "paths": ["{{ day }}.json"], "schema": "id INT NOT NULL, day DATE"}},
            **parts,
        )
        (place.folder / "days.yaml").write_text(yaml.safe_dump(content))

    def put(self, day: int, ids: list[Any]) -> None:
        json_source(self.place.folder, f"2026-01-{day:02}", [{"id": n, "day": f"2026-01-{day:02}"} for n in ids])

    def start(self, last: int, *more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "deltaic_datasets.run.backfill", str(self.place.folder / "days.yaml")]
        command += ["--from=2026-01-01", f"--to=2026-01-{last:02}", "--json", *more]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=self.environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def run_to_end(self, last: int, *more: str) -> tuple[int, list[dict[str, Any]], str]:
        process = self.start(last, *more)
        output, message = process.communicate(timeout=400)
        return process.returncode, [json.loads(line) for line in output.splitlines()], message


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_interrupted_backfill_writes_every_day_once(
    catalog: JobCatalog, place: Place, job_environment: Mapping[str, str]
) -> None:
    assert catalog  # creates its tables
    days = Days(place, job_environment)
    for day, key in enumerate(("x", 2, "x", 4), start=1):
        days.put(day, [key])
    first = days.start(4)
    assert first.stdout is not None
    begun = [json.loads(first.stdout.readline()) for _ in range(2)]
    states = {event["value"]: event["state"] for event in begun}
    assert states == {"2026-01-01": "failed", "2026-01-02": "done"}, begun
    os.killpg(first.pid, signal.SIGINT)
    output, message = first.communicate(timeout=60)
    assert first.returncode == 130, message
    assert "run the same command again to continue" in json.loads(output.splitlines()[-1])["message"]

    days.put(1, [1])
    code, events, message = days.run_to_end(4)
    assert code == 1, message
    states = {event["value"]: event["state"] for event in events if event["event"] == "ran"}
    assert list(states.values()) == ["done", "skipped", "failed", "done"], (events, message)
    assert "error: tried-2026-01-03: " in message
    assert "id is not INT" in message
    assert [(key, day.day) for key, day in place.table().rows("id", "day")] == [(n, n) for n in (1, 2, 4)]


@pytest.mark.spark
@pytest.mark.long  # in CI: test_every_step_runs_once_and_failures_are_listed, and the limits in test_deleting.py
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_backfill_of_full_extracts_deletes_within_the_limit_of_the_command(
    catalog: JobCatalog, place: Place, job_environment: Mapping[str, str]
) -> None:
    assert catalog  # creates its tables
    write = {"mode": "scd2", "keys": ["id"], "at": "day", "delete_missing": True}
    days = Days(place, job_environment, write=write)
    for day, ids in enumerate(([1, 2, 3], [1, 2], [1, 2, 4], [1, 2, 3]), 1):
        days.put(day, ids)
    code, events, message = days.run_to_end(4)
    assert code == 3, message
    assert [event["state"] for event in events if event["event"] == "ran"] == ["done", "failed"]
    assert "1 of the table's 3 keys are missing in the rows, and at most 5 % may be deleted" in message
    code, events, message = days.run_to_end(4, "--delete-at-most=50%")
    assert code == 0, message
    assert [event["state"] for event in events if event["event"] == "ran"] == ["skipped", "done", "done", "done"]
    states = place.table().rows("id", "valid_from", "valid_to")
    periods = [(key, since.day, until and until.day) for key, since, until in states if key > 2]
    assert sorted(periods, key=str) == [(3, 1, 2), (3, 4, None), (4, 3, 4)]
