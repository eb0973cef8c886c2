"""The commands of `deltaic pipeline`: what a dataset file may say, what is wrong with one, its runs, and upkeep."""

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from deltaic.errors import DeltaicError, InvalidParameter
from deltaic_datasets.run.backfill import asked
from deltaic_datasets.run.stepping import Detail, Outcome, carry_out
from deltaic_datasets.run.time_steps import Step
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.command import conduct
from deltaic_pipeline.failures import exit_code
from deltaic_pipeline.spark.access import S3Access
from deltaic_pipeline.table.run_log import rows
from deltaic_terminal.printing import as_called

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.jobs import JOB, JobLine, Variables, assigned, job_line, request, run_name
from deltaic_ops.cli.jobs.jobs import app as jobs
from deltaic_ops.cli.operator import Column, Operator, operator
from deltaic_ops.jobs import files
from deltaic_ops.jobs.runs import ENDED, POLL_SECONDS, JobRuns

app = Commands()

File = Annotated[str, typer.Argument(metavar="FILE", help="The dataset file.")]


@app.command()
def schema() -> None:
    r"""Print the JSON Schema of dataset files, by which editors complete and check them.

    \b
    deltaic pipeline schema > dataset.schema.json
    """
    from deltaic_datasets.file.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def check(out: Operator, file: File, variables: Variables = None) -> None:
    r"""Name every mistake of a dataset file with its line and field; reads nothing else and starts no Spark.

    What begins with `perhaps` is SQL that only Spark can judge, or a value that a run will need, and refuses nothing.
    With --set the file is checked for a run with these values.

    \b
    deltaic pipeline check patients.yaml
    deltaic pipeline check patients.yaml --set day=2026-11-22
    """
    from deltaic_datasets.file.checking import check as findings_of
    from deltaic_datasets.file.text import text_of

    checked = findings_of(text_of(file), dict(map(assigned, variables)) if variables else None)
    if out.as_json:
        told = [asdict(found) for found in checked.findings]
        out.json([{"file": file, **found, "mistake": not found.pop("doubtful")} for found in told])
    else:
        for found in checked.findings:
            typer.echo(as_called(f"{file}:{found.line}: {found}"))
    if checked.mistakes:
        raise typer.Exit(1)
    out.note(f"{file} is a dataset; `deltaic pipeline run {file} --dry-run` reads its sources")


@app.command(context_settings=JOB)
def run(ctx: typer.Context) -> None:
    """Build a dataset, on this machine or on EMR Serverless: the same job with the same arguments."""
    line = job_line(ctx.args, "run")
    out, file = operator(ctx, line.options.json), line.options.file
    if line.options.on == "local":
        raise typer.Exit(line.run_here(out))
    s3, bucket = out.connection.client("s3"), out.connection.jobs.bucket
    read = files.DatasetFile.read(file, dict(line.options.variables))
    jars, url = [files.jar(s3, bucket, each) for each in line.options.jar], read.put(s3, bucket)
    arguments = [url if each == file else each for each in line.for_emr()]
    raise typer.Exit(line.run_on_emr(out, read.dataset.name, arguments, jars=jars))


@app.command(context_settings=JOB)
def backfill(ctx: typer.Context) -> None:
    """Build a dataset for each step of a time, on this machine or on EMR Serverless: a run, and a run id, for each."""
    line = job_line(ctx.args, "backfill")
    out = operator(ctx, line.options.json)
    raise typer.Exit(line.run_here(out) if line.options.on == "local" else backfill_on_emr(out, line))


@app.command(context_settings=JOB)
def publish(ctx: typer.Context) -> None:
    """Publish files or a table as a shared Delta table, on this machine."""
    options = parser("publish").parse_args(ctx.args)  # what is not understood, and help, need no AWS
    raise typer.Exit(JobLine("publish", ctx.args, options).run_here(operator(ctx, as_json=False)))


@app.command(context_settings=JOB)
def maintain(ctx: typer.Context) -> None:
    """Keep a table cheap to read, on this machine or on EMR Serverless: the same job with the same arguments."""
    line = job_line(ctx.args, "maintain")
    raise typer.Exit(line.run(operator(ctx, line.options.json), line.options.location))


@app.command()
def runs(
    out: Operator,
    dataset: Annotated[str, typer.Argument(metavar="[DATASET]", help="A dataset's file, or its name.")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only those that did not end with 0.")] = False,
    location: Annotated[
        str,
        typer.Option(
            "--runs",
            envvar="DELTAIC_RUNS",
            metavar="S3_URL",
            help="The table of runs (default: the one beside the target of the file).",
        ),
    ] = "",
) -> None:
    r"""Show what runs of datasets did, by the table in which each has a row.

    \b
    deltaic pipeline runs patients.yaml
    deltaic pipeline runs patients --failed --runs s3://deltaic-lake/runs
    """
    name = dataset
    if dataset.endswith((".yaml", ".yml")) or dataset.startswith("s3://"):
        from deltaic_datasets.file.checking import WrongFile
        from deltaic_datasets.file.checking import check as findings_of
        from deltaic_datasets.file.text import text_of

        checked = findings_of(text_of(dataset))
        if checked.dataset is None:
            raise WrongFile(dataset, checked.mistakes)
        name, location = checked.dataset.name, location or checked.dataset.runs_location
    if not location:
        raise InvalidParameter("say where the table of runs is: by a dataset's file, --runs or DELTAIC_RUNS")
    found = rows(location, S3Access.from_environment(out.connection.environment), name, failed=failed)
    if out.as_json:
        out.json([{**row, "began": row["began"].isoformat()} for row in found])
    elif found:
        out.table(found, RUNS)
    else:
        out.note("no run is like that")


RUNS: tuple[Column, ...] = (
    ("dataset", lambda row: row["dataset"]),
    ("run", lambda row: row["run"]),
    ("began", lambda row: f"{row['began']:%Y-%m-%d %H:%M:%S}"),
    ("took", lambda row: f"{row['seconds']:,.1f} s"),
    ("exit", lambda row: row["exit"]),
    ("version", lambda row: row["version_after"]),
    *((name, lambda row, name=name: row[f"rows_{name}"]) for name in ("read", "written", "quarantined", "dropped")),
    ("not met", lambda row: ", ".join(one["name"] for one in row["expectations"] if not one["met"])),
    ("message", lambda row: row["message"]),
)


app.registered_commands.extend(jobs.registered_commands)


def backfill_on_emr(out: Operator, line: JobLine) -> int:
    """Start a job for each step and wait for its end; return the exit code."""
    options = line.options
    if options.detach:
        raise InvalidParameter("--detach: a backfill starts a step when another one has ended, so it stays")
    backfill = asked(options)
    connection = out.connection
    s3, runs = connection.client("s3"), JobRuns(connection.jobs, connection.client)
    read = files.DatasetFile.read(options.file, backfill.steps[0].variables)
    jars = [files.jar(s3, connection.jobs.bucket, each) for each in options.jar]
    url = read.put(s3, connection.jobs.bucket)

    def run(step: Step, detail: Detail) -> Outcome:
        told = [f"--set={name}={value}" for name, value in step.variables.items()]
        told += ["--show-values"] * options.show_values + ["--json"] * options.json
        told += [f"--runs={options.runs}"] * bool(options.runs)
        told += [f"--delete-at-most={options.delete_at_most}"] * bool(options.delete_at_most)
        asking = request(
            "run",
            run_name(read.dataset.name),
            [url, f"--wait={options.wait:g}", *told],
            run_id=step.run_id,
            memory=options.memory,
            jars=jars,
            minutes=options.minutes,
        )
        return _followed(runs, asking, detail)

    stopped = "a job that has begun goes on; the same command follows it, and starts the others"
    return conduct(
        lambda _, tell: carry_out(backfill, run, tell, as_json=options.json),
        as_json=options.json,
        stopped=stopped,
    )


def _followed(runs: JobRuns, asking: dict[str, Any], detail: Detail) -> Outcome:
    """Start a job, which may be one that has begun before, and return how it ended."""
    began = datetime.now(UTC)
    try:
        started = runs.start(asking)
        while (now := runs.get(started)).state not in ENDED:
            detail(f"{now.state.lower()}, {now.seconds:,.0f} s")
            time.sleep(POLL_SECONDS)
    except DeltaicError as refusal:
        return Outcome("failed", refusal.message, exit_code(refusal))
    if now.exit_code:
        said = f"{now.state.lower()}: {now.details}" if now.details else now.state.lower()
        return Outcome("failed", f"{said} (deltaic pipeline logs {started})", now.exit_code, now.seconds)
    earlier = now.created < began.replace(microsecond=0)
    return Outcome("skipped" if earlier else "done", f"job run {started}", seconds=now.seconds)
