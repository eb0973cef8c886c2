"""The commands of `deltaic pipeline`: what a dataset file may say, what is wrong with one, its run, and upkeep."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from deltaic.errors import InvalidParameter
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.spark.access import S3Access
from deltaic_pipeline.table.run_log import rows
from deltaic_terminal.printing import as_called

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.backfill import backfill_on_emr
from deltaic_ops.cli.jobs.jobs import JOB, JobLine, Variables, assigned, job_line
from deltaic_ops.cli.jobs.jobs import app as jobs
from deltaic_ops.cli.operator import Column, Operator, operator
from deltaic_ops.jobs import files

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
