"""The commands of `deltaic pipeline` for jobs on EMR Serverless: package, runs there, their logs, schedules."""

import os
import tempfile
import uuid
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args
from urllib.parse import quote

import typer
from deltaic.errors import InvalidParameter
from deltaic_datasets.file.binding import RUN_DATE
from deltaic_pipeline import entry
from deltaic_pipeline.arguments import assignment, parser
from deltaic_terminal.progress import silent, step, terminal

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.listing import fields
from deltaic_ops.cli.operator import Column, Operator, operator, told_fields
from deltaic_ops.jobs import files
from deltaic_ops.jobs.runs import ENDED, JobRun, JobRuns
from deltaic_ops.jobs.schedules import WHEN, Schedules

if TYPE_CHECKING:
    from deltaic_ops.deploy.sam import Architecture

app = Commands(no_args_is_help=False)

MOST_MINUTES = 10_080

Run = Annotated[str, typer.Argument(metavar="RUN", help="EMR's id of the job run, the run's id, or a dataset's name.")]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Spark's heap, such as 4g (default: 1g here, EMR's own there).")
]
Jars = Annotated[list[str] | None, typer.Option("--jar", metavar="PATH", help="A database's driver. Can be repeated.")]
Minutes = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_MINUTES, help="End it after so many (default: 120)."),
]

Variables = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Value of a variable. Can be repeated.")
]

JOB = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Settings of a command whose options are those of a job, which reads them itself."""


@app.command()
def package(
    out: Operator,
    python: Annotated[str, typer.Option(metavar="X.Y", help="The Python of the cluster's image.")] = "3.13",
    architecture: Annotated[
        str, typer.Option(metavar="arm64|x86_64", help="The processor (default: the application's).")
    ] = "",
) -> None:
    r"""Build the jobs' wheel and environment for the cluster and upload them; jobs that start later run with them.

    Needs uv, and no container. Jobs that run meanwhile keep what they began with.

    \b
    deltaic pipeline package
    deltaic --stack deltaic-prod pipeline package --python 3.11
    """
    # Building loads the template, and a run does not build.
    from deltaic_ops.deploy.sam import BuildTarget
    from deltaic_ops.jobs.package import build, upload

    where = out.connection.jobs
    with (
        step(silent if out.as_json else terminal(), "Packaging the jobs") as tell,
        tempfile.TemporaryDirectory() as folder,
    ):
        target = BuildTarget(_architecture(out, architecture), python)
        made = build(Path(folder), target, tell)
        new = upload(out.connection.client("s3"), where.bucket, made, tell)
        size = sum(file.stat().st_size for file in made.files.values())
        tell(f"{made.digest}, {size / 1_000_000:.1f} MB" + ("" if new else ", as it was"))
    if out.as_json:
        out.json({"digest": made.digest, "bucket": where.bucket, "bytes": size, "uploaded": new})


def _architecture(out: Operator, told: str) -> "Architecture":
    from deltaic_ops.deploy.sam import Architecture

    wanted = told or _runs(out).architecture()
    if wanted not in get_args(Architecture):
        raise InvalidParameter(f"--architecture {wanted} is neither arm64 nor x86_64")
    return cast("Architecture", wanted)


@app.command()
def status(out: Operator, run: Run) -> None:
    r"""Show how a run stands; the exit code is 0 while it runs and when it succeeded, else the job's own.

    \b
    deltaic pipeline status patients
    """
    found = _runs(out).find(run)
    _show(out, [found])
    if found.state in ENDED and found.exit_code:
        raise typer.Exit(found.exit_code)


@app.command()
def logs(
    ctx: typer.Context,
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
) -> None:
    r"""Print what a run has printed: its steps, its summary, why it was refused.

    \b
    deltaic pipeline logs patients --follow
    """
    runs = _runs(operator(ctx, as_json=False))
    found = runs.find(run)
    if follow:
        with suppress(KeyboardInterrupt):
            runs.follow(found.job_run_id, typer.echo)
        return
    said = runs.lines(found.job_run_id)
    while (line := next(said)) is not None:
        typer.echo(line)


@app.command()
def cancel(out: Operator, run: Run) -> None:
    r"""End a run; what it had not committed is not in its table.

    \b
    deltaic pipeline cancel 00fabc123
    """
    runs = _runs(out)
    found = runs.find(run)
    runs.cancel(found.job_run_id)
    _show(out, [runs.get(found.job_run_id)])


@app.command("list")
def list_runs(out: Operator, days: Annotated[int, typer.Option(min=1, help="How far back.")] = 7) -> None:
    r"""List the runs of the last days, the latest first, and the schedules.

    \b
    deltaic pipeline list --days 30
    """
    runs = sorted(_runs(out).recent(timedelta(days=days)), key=lambda run: run.created, reverse=True)
    planned = list(Schedules(out.connection.jobs, out.connection.client).all())
    if out.as_json:
        out.json({"runs": list(map(told_fields, runs)), "schedules": planned})
        return
    _show(out, runs, f"no run in the last {days} days")
    if planned:
        out.table(planned, _SCHEDULE)


@app.command()
def schedule(  # noqa: PLR0913, PLR0917 -- the job's own arguments
    out: Operator,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The dataset file.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take its schedule away.")] = False,
    memory: Memory = "",
    jar: Jars = None,
    minutes: Minutes = None,
    variables: Variables = None,
) -> None:
    r"""Let a dataset be built as its `schedule` says, with the file as it is now; again after the file changes.

    \b
    deltaic pipeline schedule patients.yaml --jar postgresql.jar --memory 8g --minutes 300
    deltaic pipeline schedule patients.yaml --remove
    """
    where = out.connection.jobs
    schedules = Schedules(where, out.connection.client)
    read = files.DatasetFile.read(file, dict(map(assigned, variables or ())))
    name, declared = read.dataset.name, read.dataset.schedule
    if remove:
        schedules.remove(name)
        out.note(f"{name} is built by hand only from now on")
        return
    if declared is None:
        raise InvalidParameter(f"{file} declares no schedule: add `schedule: {{expression: cron(0 6 * * ? *)}}`")
    s3 = out.connection.client("s3")
    url, drivers = read.put(s3, where.bucket), [files.jar(s3, where.bucket, each) for each in jar or ()]
    # Nobody looks when it fails, and the first time it may be the machine's fault: once more, then the alarm.
    told = [url, "--wait=600", "--json", *(f"--set={each}" for each in variables or ())]
    told += [f"--set={RUN_DATE}={WHEN}"] * (RUN_DATE in read.variables)
    asked = request("run", name, told, memory=memory, jars=drivers, minutes=minutes)
    asked |= {"attempts": 2}
    new = schedules.put(name, declared, asked)
    if out.as_json:
        out.json({"dataset": name, "expression": declared.expression, "file": url, "new": new})
    out.note(f"{name} is built by {declared.expression} in {declared.timezone}" + ("" if new else " from now on"))


def request(  # noqa: PLR0913 -- the fields of a request
    job: str,
    name: str,
    arguments: Sequence[str],
    *,
    run_id: str = "",
    memory: str = "",
    jars: Sequence[str] = (),
    minutes: int | None = None,
) -> dict[str, Any]:
    """Return what the function that starts jobs is asked (functions/pipeline/submit)."""
    fields: dict[str, Any] = {"job": job, "name": name, "arguments": list(arguments), "jars": list(jars)}
    if run_id:
        fields["runId"] = run_id
    if memory:
        fields["spark"] = {f"spark.{part}.memory": memory for part in ("driver", "executor")}
    if minutes is not None:
        fields["timeoutMinutes"] = minutes
    return fields


def run_name(name: str) -> str:
    """Return what a request calls the thing that its job is about: one word, the end of a long one."""
    return quote(name, safe=":/")[-128:]


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job's command line as it was typed."""

    job: str
    arguments: Sequence[str]
    options: Namespace

    def run(self, out: Operator, name: str) -> int:
        """Run the job, here or on EMR Serverless, and return its exit code."""
        return self.run_on_emr(out, name, self.for_emr()) if self.options.on == "emr" else self.run_here(out)

    def run_here(self, out: Operator) -> int:
        """Run the job on this machine; AWS's ordinary variables tell it which AWS is meant."""
        os.environ.update(out.connection.environment)
        return entry.main([self.job, f"--catalog={out.connection.catalog_table}", *_without(self.arguments, _PLACE)])

    def for_emr(self) -> list[str]:
        """Return the arguments that are none of a request's own fields."""
        return _without(self.arguments, (*_PLACE, "--run-id", "--memory", "--jar"))

    def run_on_emr(self, out: Operator, name: str, arguments: Sequence[str], *, jars: Sequence[str] = ()) -> int:
        """Start the job on EMR Serverless, show what it prints unless it is to be left alone; return its exit code."""
        one, runs = self.options, _runs(out)
        run_id = one.run_id or uuid.uuid4().hex
        asked = request(
            self.job, run_name(name), arguments, run_id=run_id, memory=one.memory, jars=jars, minutes=one.minutes
        )
        started = runs.start(asked)
        out.note(f"job run {started}, run id {run_id}: it goes on whatever happens to this command")
        if one.detach:
            _show(out, [runs.get(started)])
            return 0
        try:
            ended = runs.follow(started, typer.echo)
        except KeyboardInterrupt:
            out.note(f"it still runs: `deltaic pipeline status {started}`, `deltaic pipeline cancel {started}`")
            return 130
        out.note(f"{ended.state.lower()} after {ended.seconds:,.0f} s{': ' * bool(ended.details)}{ended.details}")
        return ended.exit_code


def job_line(typed: Sequence[str], job: str) -> JobLine:
    """Return what was typed; help and what is not understood end the command."""
    line = parser(job)
    where = line.add_argument_group("where it runs")
    where.add_argument("--on", choices=("local", "emr"), default="local", help="this machine, or EMR Serverless")
    where.add_argument("--detach", action="store_true", help="on EMR: do not wait for the end")
    where.add_argument("--minutes", type=_minutes, metavar="N", help="on EMR: end it after so many (default: 120)")
    return JobLine(job, typed, line.parse_args(typed))


_PLACE = ("--on", "--detach", "--minutes")


def _without(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    line = ArgumentParser(add_help=False, allow_abbrev=False)
    for option in options:
        line.add_argument(option, action="store_true" if option == "--detach" else "store")
    return line.parse_known_args(arguments)[1]


def assigned(text: str) -> tuple[str, str]:
    """Return name and value of an option --set; raises InvalidParameter."""
    try:
        return assignment(text)
    except ArgumentTypeError as wrong:
        raise InvalidParameter(f"--set {wrong}") from None


def _minutes(text: str) -> int:
    with suppress(ValueError):
        minutes = int(text)
        if 1 <= minutes <= MOST_MINUTES:
            return minutes
    raise ArgumentTypeError(f"'{text}' is not a number of minutes from 1 to {MOST_MINUTES}")


def _runs(out: Operator) -> JobRuns:
    return JobRuns(out.connection.jobs, out.connection.client)


def _show(out: Operator, runs: Sequence[JobRun], nothing: str = "") -> None:
    if out.as_json:
        out.json(list(map(told_fields, runs)))
    elif not runs:
        out.note(nothing)
    else:
        out.table(runs, _COLUMNS)


_COLUMNS: tuple[Column, ...] = (
    *fields(run="name", state="state", began="created"),
    ("took", lambda run: f"{timedelta(seconds=round(run.seconds))}"),
    *fields(attempt="attempt", **{"EMR's id": "job_run_id"}, details="details"),
)

_SCHEDULE: tuple[Column, ...] = (
    ("schedule", itemgetter("dataset")),
    ("when", itemgetter("expression")),
    ("in", itemgetter("timezone")),
    ("state", itemgetter("state")),
)
