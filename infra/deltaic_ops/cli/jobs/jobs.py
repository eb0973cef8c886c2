"""The commands of `deltaic pipeline` for jobs on EMR Serverless: package, runs, logs, schedules."""

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
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

import typer
from deltaic.errors import InvalidParameter
from deltaic_datasets.file.variable_binding import RUN_DATE
from deltaic_pipeline import entry
from deltaic_pipeline.arguments import assignment, parser
from deltaic_terminal.progress import silent, step, terminal

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.list_output import fields
from deltaic_ops.cli.operator import Column, Operator, json_fields, operator
from deltaic_ops.jobs import job_files
from deltaic_ops.jobs.job_runs import ENDED, JobRun, JobRuns
from deltaic_ops.jobs.schedules import SCHEDULED_TIME, Schedules

if TYPE_CHECKING:
    from deltaic_ops.deploy.sam import Architecture

app = Commands(no_args_is_help=False)

MOST_MINUTES = 10_080

Run = Annotated[str, typer.Argument(metavar="RUN", help="EMR job run id, run id, or dataset name (its latest run).")]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Java heap of Spark, such as 4g. [default: EMR's default]")]
Jars = Annotated[list[str] | None, typer.Option("--jar", metavar="PATH", help="JDBC driver. Can be repeated.")]
_MINUTES = "Stop the job after N minutes. [default: 120]"
Minutes = Annotated[int | None, typer.Option(min=1, max=MOST_MINUTES, metavar="N", help=_MINUTES)]
_SET = "Set a variable. Can be repeated."
Variables = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=_SET)]

JOB = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Typer settings of a command that passes its arguments to the argument parser of a job."""


@app.command()
def package(
    cli: Operator,
    python: Annotated[str, typer.Option(metavar="X.Y", help="Python version of the EMR image.")] = "3.13",
) -> None:
    r"""Build the Spark jobs and upload them to the stack.

    The command needs uv, but no Docker. The package is for the CPU type of the stack's EMR application. Jobs that
    start later use it.

    \b
    deltaic pipeline package
    deltaic --stack deltaic-prod pipeline package --python 3.11
    """
    # Building loads the template, and a run does not build.
    from deltaic_ops.deploy.sam import BuildTarget
    from deltaic_ops.jobs.package import build, upload

    outputs = cli.connection.jobs
    with (
        step(silent if cli.as_json else terminal(), "Packaging the jobs") as update,
        tempfile.TemporaryDirectory() as folder,
    ):
        target = BuildTarget(cast("Architecture", _runs(cli).architecture()), python)
        built = build(Path(folder), target, update)
        new = upload(cli.connection.client("s3"), outputs.bucket, built, update)
        size = sum(file.stat().st_size for file in built.files.values())
        update(f"{built.digest}, {size / 1_000_000:.1f} MB" + ("" if new else ", unchanged"))
    if cli.as_json:
        cli.json({"digest": built.digest, "bucket": outputs.bucket, "bytes": size, "uploaded": new})


@app.command()
def status(cli: Operator, run: Run) -> None:
    r"""Show the state of a run.

    The exit code is 0 while it runs or if it succeeded, otherwise the exit code of the job.

    \b
    deltaic pipeline status patients
    """
    job_run = _runs(cli).find(run)
    _show(cli, [job_run])
    if job_run.state in ENDED and job_run.exit_code:
        raise typer.Exit(job_run.exit_code)


@app.command()
def logs(
    ctx: typer.Context,
    run: Run,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new output until the run ends.")] = False,
) -> None:
    r"""Print the output of a run: steps, summary and errors.

    \b
    deltaic pipeline logs patients --follow
    """
    runs = _runs(operator(ctx, as_json=False))
    job_run_id = runs.find(run).job_run_id
    if follow:
        with suppress(KeyboardInterrupt):
            runs.follow(job_run_id, typer.echo)
        return
    lines = runs.lines(job_run_id)
    while (line := next(lines)) is not None:
        typer.echo(line)


@app.command()
def cancel(cli: Operator, run: Run) -> None:
    r"""Cancel a run. Rows that it has already committed stay in its table.

    \b
    deltaic pipeline cancel 00fabc123
    """
    runs = _runs(cli)
    job_run_id = runs.find(run).job_run_id
    runs.cancel(job_run_id)
    _show(cli, [runs.get(job_run_id)])


@app.command("list")
def list_runs(cli: Operator, days: Annotated[int, typer.Option(min=1, metavar="N", help="Last N days.")] = 7) -> None:
    r"""List recent runs, the latest first, and all schedules.

    \b
    deltaic pipeline list --days 30
    """
    runs = sorted(_runs(cli).recent(timedelta(days=days)), key=lambda run: run.created, reverse=True)
    planned = list(Schedules(cli.connection.jobs, cli.connection.client).all())
    if cli.as_json:
        cli.json({"runs": list(map(json_fields, runs)), "schedules": planned})
        return
    _show(cli, runs, f"no runs in the last {days} days")
    if planned:
        cli.table(planned, _SCHEDULE)


@app.command()
def schedule(  # noqa: PLR0913, PLR0917 -- arguments of the job
    cli: Operator,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Dataset file.")],
    remove: Annotated[bool, typer.Option("--remove", help="Delete the schedule.")] = False,
    memory: Memory = "",
    jar: Jars = None,
    minutes: Minutes = None,
    variables: Variables = None,
) -> None:
    r"""Schedule a dataset as the field `schedule` of its file declares.

    The command uploads the file. Run it again after you change the file.

    \b
    deltaic pipeline schedule patients.yaml --jar postgresql.jar --memory 8g --minutes 300
    deltaic pipeline schedule patients.yaml --remove
    """
    outputs = cli.connection.jobs
    schedules = Schedules(outputs, cli.connection.client)
    read = job_files.DatasetFile.read(file, dict(map(assigned, variables or ())))
    name, declared = read.dataset.name, read.dataset.schedule
    if remove:
        schedules.remove(name)
        cli.note(f"deleted the schedule of {name}")
        return
    if declared is None:
        raise InvalidParameter(f"{file} has no schedule: add `schedule: {{expression: cron(0 6 * * ? *)}}`")
    s3 = cli.connection.client("s3")
    url, drivers = read.put(s3, outputs.bucket), [job_files.jar(s3, outputs.bucket, each) for each in jar or ()]
    # A first failure may be transient, and no one watches: try once more, then raise the alarm.
    arguments = [url, "--wait=600", "--json", *(f"--set={each}" for each in variables or ())]
    arguments += [f"--set={RUN_DATE}={SCHEDULED_TIME}"] * (RUN_DATE in read.variables)
    job_request = request("run", name, arguments, memory=memory, jars=drivers, minutes=minutes)
    job_request |= {"attempts": 2}
    new = schedules.put(name, declared, job_request)
    if cli.as_json:
        cli.json({"dataset": name, "expression": declared.expression, "file": url, "new": new})
    done = "scheduled" if new else "rescheduled"
    cli.note(f"{done} {name}: {declared.expression}, time zone {declared.timezone}")


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
    """Return a request to the Lambda function that starts jobs (functions/pipeline/submit)."""
    fields: dict[str, Any] = {"job": job, "name": name, "arguments": list(arguments), "jars": list(jars)}
    if run_id:
        fields["runId"] = run_id
    if memory:
        fields["spark"] = {f"spark.{part}.memory": memory for part in ("driver", "executor")}
    if minutes is not None:
        fields["timeoutMinutes"] = minutes
    return fields


def run_name(name: str) -> str:
    """Return the name of a dataset or view for a job request: percent-encoded, and only its last 128 characters."""
    return quote(name, safe=":/")[-128:]


@dataclass(frozen=True, slots=True)
class JobLine:
    """The command line of a job: its arguments as typed, and the parsed options."""

    job: str
    arguments: Sequence[str]
    options: Namespace

    def run(self, cli: Operator, name: str) -> int:
        """Run the job, here or on EMR Serverless, and return its exit code."""
        return self.run_on_emr(cli, name, self.for_emr()) if self.options.on == "emr" else self.run_here(cli)

    def run_here(self, cli: Operator) -> int:
        """Run the job on this machine; the standard AWS variables pass the connection to it."""
        os.environ.update(cli.connection.environment)
        return entry.main([self.job, f"--catalog={cli.connection.catalog_table}", *_without(self.arguments, _RUN_ONLY)])

    def for_emr(self) -> list[str]:
        """Return the job's arguments for EMR, without the arguments that become fields of the job request."""
        return _without(self.arguments, (*_RUN_ONLY, "--run-id", "--memory", "--jar"))

    def run_on_emr(self, cli: Operator, name: str, arguments: Sequence[str], *, jars: Sequence[str] = ()) -> int:
        """Start the job on EMR Serverless, print its output unless --detach is set, and return its exit code."""
        options, runs = self.options, _runs(cli)
        run_id, memory, minutes = options.run_id or uuid.uuid4().hex, options.memory, options.minutes
        job_request = request(
            self.job, run_name(name), arguments, run_id=run_id, memory=memory, jars=jars, minutes=minutes
        )
        started = runs.start(job_request)
        cli.note(f"started job run {started}, run id {run_id}; it continues even if you stop this command")
        if options.detach:
            _show(cli, [runs.get(started)])
            return 0
        try:
            ended = runs.follow(started, typer.echo)
        except KeyboardInterrupt:
            cli.note(f"the job still runs: `deltaic pipeline status {started}`, `deltaic pipeline cancel {started}`")
            return 130
        cli.note(f"{ended.state.lower()} after {ended.seconds:,.0f} s{': ' * bool(ended.details)}{ended.details}")
        return ended.exit_code


def job_line(typed: Sequence[str], job: str) -> JobLine:
    """Parse the command line of a job; --help and usage errors end the command."""
    line = parser(job)
    outputs = line.add_argument_group("where to run")
    outputs.add_argument(
        "--on", choices=("local", "emr"), default="local", help="This machine or EMR Serverless.  [default: local]"
    )
    outputs.add_argument("--detach", action="store_true", help="On EMR: do not wait until the job ends.")
    outputs.add_argument("--minutes", type=_minutes, metavar="N", help="On EMR: stop after N minutes. [default: 120]")
    return JobLine(job, typed, line.parse_args(typed))


_RUN_ONLY = ("--on", "--detach", "--minutes")


def _without(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    line = ArgumentParser(add_help=False, allow_abbrev=False)
    for option in options:
        line.add_argument(option, action="store_true" if option == "--detach" else "store")
    return line.parse_known_args(arguments)[1]


def assigned(text: str) -> tuple[str, str]:
    """Parse the name and value of an option --set; raises InvalidParameter."""
    try:
        return assignment(text)
    except ArgumentTypeError as error:
        raise InvalidParameter(f"--set {error}") from None


def _minutes(text: str) -> int:
    with suppress(ValueError):
        minutes = int(text)
        if 1 <= minutes <= MOST_MINUTES:
            return minutes
    raise ArgumentTypeError(f"'{text}' is not a number of minutes from 1 to {MOST_MINUTES}")


def _runs(cli: Operator) -> JobRuns:
    return JobRuns(cli.connection.jobs, cli.connection.client)


def _show(cli: Operator, runs: Sequence[JobRun], nothing: str = "") -> None:
    if cli.as_json:
        cli.json(list(map(json_fields, runs)))
    elif not runs:
        cli.note(nothing)
    else:
        cli.table(runs, _COLUMNS)


_COLUMNS: tuple[Column, ...] = (
    *fields(run="name", state="state", started="created"),
    ("took", lambda run: f"{timedelta(seconds=round(run.seconds))}"),
    *fields(attempt="attempt", job_run_id="job_run_id", details="details"),
)

_SCHEDULE: tuple[Column, ...] = (
    ("schedule", itemgetter("dataset")),
    ("when", itemgetter("expression")),
    ("time zone", itemgetter("timezone")),
    ("state", itemgetter("state")),
)
