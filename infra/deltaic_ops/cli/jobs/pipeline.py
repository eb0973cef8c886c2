"""The commands of `deltaic pipeline` for datasets: schema and check of a file, runs, publishing, maintenance."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from deltaic.errors import InvalidParameter
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.run_log import rows
from deltaic_terminal.printing import as_called

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.jobs.jobs import JOB, JobLine, Variables, assigned, job_line
from deltaic_ops.cli.jobs.jobs import app as jobs
from deltaic_ops.cli.operator import Column, Operator, operator
from deltaic_ops.jobs import job_files

app = Commands()

_RUNS = "Location of the runs table. [default: the location of the dataset file's target followed by _runs]"
File = Annotated[str, typer.Argument(metavar="FILE", help="Dataset file.")]


@app.command()
def schema() -> None:
    r"""Print the JSON Schema of dataset files, for editors.

    \b
    deltaic pipeline schema > dataset.schema.json
    """
    from deltaic_datasets.file.dataset_model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def check(cli: Operator, file: File, variables: Variables = None) -> None:
    r"""Check a dataset file, without running it.

    The check needs no Spark and reads no sources. Each error is printed with its line and field. Lines with `perhaps`
    are warnings: SQL that only Spark can check, or a value that a run will need. With --set, the command checks the
    file for a run with these values.

    \b
    deltaic pipeline check patients.yaml
    deltaic pipeline check patients.yaml --set day=2026-11-22
    """
    from deltaic_datasets.file.file_checks import check as findings_of
    from deltaic_datasets.file.file_text import text_of

    checked = findings_of(text_of(file), dict(map(assigned, variables)) if variables else None)
    if cli.as_json:
        findings = map(asdict, checked.findings)
        cli.json([{"file": file, **finding, "mistake": not finding.pop("doubtful")} for finding in findings])
    else:
        for finding in checked.findings:
            typer.echo(as_called(f"{file}:{finding.line}: {finding}"))
    if checked.mistakes:
        raise typer.Exit(1)
    cli.note(f"{file} is valid; to check its sources: `deltaic pipeline run {file} --dry-run`")


@app.command(context_settings=JOB)
def run(ctx: typer.Context) -> None:
    """Build a dataset from its file."""
    line = job_line(ctx.args, "run")
    cli = operator(ctx, line.options.json)
    if line.options.on == "local":
        raise typer.Exit(line.run_here(cli))
    read = job_files.DatasetFile.read(line.options.file, dict(line.options.variables))
    raise typer.Exit(_run_file(cli, line, read, read.dataset.name))


@app.command(context_settings=JOB)
def backfill(ctx: typer.Context) -> None:
    """Build a dataset for each step of a period: days, weeks or months."""
    line = job_line(ctx.args, "backfill")
    cli = operator(ctx, line.options.json)
    if line.options.on == "local":
        raise typer.Exit(line.run_here(cli))
    from deltaic_datasets.run.backfill import requested_backfill
    from deltaic_datasets.run.time_steps import LONGEST_RUN_ID

    steps = requested_backfill(line.options).steps
    read = job_files.DatasetFile.read(line.options.file, steps[0].variables)
    # The run ids of the steps begin with the job's, so that the same command continues where a job has ended.
    line.options.run_id = line.options.run_id or read.dataset.name.lstrip("_")[:LONGEST_RUN_ID]
    raise typer.Exit(_run_file(cli, line, read, f"{steps[0].run_id}:{steps[-1].value}:{len(steps)}"))


def _run_file(cli: Operator, line: JobLine, read: job_files.DatasetFile, name: str) -> int:
    """Upload a dataset file and its drivers, run the job on EMR Serverless, and return its exit code."""
    s3, bucket = cli.connection.client("s3"), cli.connection.jobs.bucket
    jars, url = [job_files.jar(s3, bucket, each) for each in line.options.jar], read.put(s3, bucket)
    arguments = [url if each == line.options.file else each for each in line.for_emr()]
    return line.run_on_emr(cli, name, arguments, jars=jars)


@app.command(context_settings=JOB)
def publish(ctx: typer.Context) -> None:
    """Write files or a table to a Delta table and share it."""
    options = parser("publish").parse_args(ctx.args)  # --help and usage errors need no AWS
    raise typer.Exit(JobLine("publish", ctx.args, options).run_here(operator(ctx, as_json=False)))


@app.command(context_settings=JOB)
def maintain(ctx: typer.Context) -> None:
    """Maintain a Delta table: compact, checkpoint, vacuum."""
    line = job_line(ctx.args, "maintain")
    raise typer.Exit(line.run(operator(ctx, line.options.json), line.options.location))


@app.command()
def runs(
    cli: Operator,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Dataset file or name. [default: all]")] = "",
    failed: Annotated[bool, typer.Option("--failed", help="List only runs that failed.")] = False,
    location: Annotated[str, typer.Option("--runs", envvar="DELTAIC_RUNS", metavar="S3_URL", help=_RUNS)] = "",
) -> None:
    r"""List runs of datasets with their results.

    \b
    deltaic pipeline runs patients.yaml
    deltaic pipeline runs patients --failed --runs s3://deltaic-lake/runs
    """
    name = dataset
    if dataset.endswith((".yaml", ".yml")) or dataset.startswith("s3://"):
        from deltaic_datasets.file.file_checks import WrongFile
        from deltaic_datasets.file.file_checks import check as findings_of
        from deltaic_datasets.file.file_text import text_of

        checked = findings_of(text_of(dataset))
        if checked.dataset is None:
            raise WrongFile(dataset, checked.mistakes)
        name, location = checked.dataset.name, location or checked.dataset.runs_location
    if not location:
        raise InvalidParameter("missing location of the runs table: use a dataset file, --runs or DELTAIC_RUNS")
    entries = rows(location, S3Access.from_environment(cli.connection.environment), name, failed=failed)
    if cli.as_json:
        cli.json([{**row, "began": row["began"].isoformat()} for row in entries])
    elif entries:
        cli.table(entries, RUNS)
    else:
        cli.note("no matching runs")


RUNS: tuple[Column, ...] = (
    ("dataset", lambda row: row["dataset"]),
    ("run", lambda row: row["run"]),
    ("started", lambda row: f"{row['began']:%Y-%m-%d %H:%M:%S}"),
    ("took", lambda row: f"{row['seconds']:,.1f} s"),
    ("exit", lambda row: row["exit"]),
    ("version", lambda row: row["version_after"]),
    *((name, lambda row, name=name: row[f"rows_{name}"]) for name in ("read", "written", "quarantined", "dropped")),
    ("failed checks", lambda row: ", ".join(each["name"] for each in row["expectations"] if not each["met"])),
    ("message", lambda row: row["message"]),
)


app.registered_commands.extend(jobs.registered_commands)
