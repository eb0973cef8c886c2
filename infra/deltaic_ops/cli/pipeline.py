"""Decides what `deltaic pipeline` does: what a dataset file may say, what is wrong with one, its run, and upkeep."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from deltaic_pipeline.spark.printing import as_called

from deltaic_ops.cli.jobs import (
    Detach,
    Jars,
    Memory,
    Minutes,
    On,
    RunId,
    ShowValues,
    Wait,
    request,
    run_here,
    run_job,
    run_on_emr,
)
from deltaic_ops.cli.jobs import app as jobs
from deltaic_ops.cli.operator import AsJson, operator
from deltaic_ops.jobs import files

app = typer.Typer(no_args_is_help=True, add_completion=False)

File = Annotated[str, typer.Argument(metavar="FILE", help="The dataset file.")]


@app.command()
def schema() -> None:
    r"""Print the JSON Schema of dataset files, by which editors complete and check them.

    \b
    deltaic pipeline schema > dataset.schema.json
    """
    from deltaic_pipeline.datasets.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


@app.command()
def check(ctx: typer.Context, file: File, as_json: AsJson = False) -> None:
    r"""Name every mistake of a dataset file with its line and field; reads nothing else and starts no Spark.

    What begins with `perhaps` is SQL that only Spark can judge, and refuses nothing.

    \b
    deltaic pipeline check patients.yaml
    """
    from deltaic_pipeline.datasets.checking import check as findings_of
    from deltaic_pipeline.datasets.document import text_of

    out = operator(ctx, as_json)
    checked = findings_of(text_of(file))
    if as_json:
        told = [asdict(found) for found in checked.findings]
        out.json([{"file": file, **found, "mistake": not found.pop("doubtful")} for found in told])
    else:
        for found in checked.findings:
            typer.echo(as_called(f"{file}:{found.line}: {found}"))
    if checked.mistakes:
        raise typer.Exit(1)
    out.note(f"{file} is a dataset; `deltaic pipeline run {file} --dry-run` reads its sources")


@app.command()
def run(  # noqa: PLR0913, PLR0917 -- the job's own arguments
    ctx: typer.Context,
    file: File,
    run_id: RunId = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show plan, differences and counts; change nothing.")
    ] = False,
    wait: Wait = 0.0,
    memory: Memory = "",
    jar: Jars = None,
    minutes: Minutes = None,
    show_values: ShowValues = False,
    on: On = "local",
    detach: Detach = False,
    as_json: AsJson = False,
) -> None:
    r"""Build a dataset, on this machine or on EMR Serverless: the same job with the same arguments.

    Exit codes: 0 done (or done before by the same run), 1 refused or failed, 2 wrong arguments, 3 an expectation
    failed and nothing was written, 4 another writer has the table or took it: run again, 5 the rows are written, and
    what belongs behind them (the table's own words, its catalog entry) is not done: run again.

    \b
    deltaic pipeline run patients.yaml --dry-run
    deltaic pipeline run patients.yaml --run-id 2026-11-22 --memory 4g
    deltaic pipeline run patients.yaml --on emr
    """
    out = operator(ctx, as_json)
    given = [f"--wait={wait}", *["--dry-run"] * dry_run, *["--show-values"] * show_values, *["--json"] * as_json]
    if on == "emr":
        s3, bucket = out.connection.client("s3"), out.connection.jobs.bucket
        read = files.DatasetFile.read(file)
        drivers = [files.jar(s3, bucket, each) for each in jar or ()]
        asked = request(
            "run",
            read.dataset.name,
            [read.put(s3, bucket), *given],
            run_id=run_id,
            memory=memory,
            jars=drivers,
            minutes=minutes,
            follows=files.follows(read.dataset),
        )
        raise typer.Exit(run_on_emr(out, asked, detach=detach))
    given += [f"--jar={each}" for each in jar or ()]
    raise typer.Exit(run_job(out, "run", file, [file, *given], on=on, detach=detach, run_id=run_id, memory=memory))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def publish(ctx: typer.Context) -> None:
    """Publish files or a table as a shared Delta table, on this machine; --help lists the job's own options."""
    from deltaic_pipeline.arguments import parser

    parser().parse_args(ctx.args)  # what is not understood, and help, need no AWS
    raise typer.Exit(run_here(operator(ctx, as_json=False), "publish", ctx.args))


@app.command("maintain")
def maintain_table(  # noqa: PLR0913, PLR0917 -- the job's own arguments
    ctx: typer.Context,
    location: Annotated[str, typer.Argument(metavar="S3_URL", help="Location of the Delta table.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and what is kept; change nothing.")
    ] = False,
    optimize: Annotated[bool, typer.Option("--optimize/--no-optimize", help="Join small files.")] = True,
    zorder_by: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Not for clustered tables. Can be repeated.")
    ] = None,
    checkpoint: Annotated[bool, typer.Option("--checkpoint/--no-checkpoint", help="Write one where it is due.")] = True,
    checkpoint_after: Annotated[
        int | None, typer.Option(metavar="N", help="Commits after the last one (default: 10).")
    ] = None,
    sort: Annotated[
        bool, typer.Option("--sort/--no-sort", help="Put v2 checkpoints in order by partition and clustering.")
    ] = True,
    v2_checkpoints: Annotated[
        bool, typer.Option("--v2-checkpoints", help="Choose them for the table; old readers cannot read it any more.")
    ] = False,
    vacuum: Annotated[bool, typer.Option("--vacuum/--no-vacuum", help="Delete what nobody needs.")] = True,
    keep: Annotated[float | None, typer.Option(metavar="DAYS", help="Versions stay readable at least as long.")] = None,
    url_ttl: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="Life of the server's URLs (default: URL_TTL_SECONDS, or 3600)."),
    ] = None,
    stream_checkpoint: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Of a stream that reads the table. Can be repeated.")
    ] = None,
    run_id: RunId = "",
    wait: Wait = 0.0,
    memory: Memory = "",
    show_values: ShowValues = False,
    on: On = "local",
    detach: Detach = False,
    as_json: AsJson = False,
) -> None:
    r"""Keep a table cheap to read, on this machine or on EMR Serverless: the same job with the same arguments.

    Deletes no file of a version that somebody may read: the latest, those of the last days, history that is shared.
    Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, 4 another writer has the table or took it: run again.

    \b
    deltaic pipeline maintain s3://deltaic-lake/patients --dry-run
    deltaic pipeline maintain s3://deltaic-lake/patients --zorder-by patient_id --keep 30
    """
    out = operator(ctx, as_json)
    given = [location, f"--wait={wait}", *["--show-values"] * show_values]
    given += [f"--checkpoint-after={checkpoint_after}"] * (checkpoint_after is not None)
    given += [f"--zorder-by={column}" for column in zorder_by or ()]
    given += [f"--stream-checkpoint={path}" for path in stream_checkpoint or ()]
    given += [f"--keep={keep}"] * (keep is not None) + [f"--url-ttl={url_ttl}"] * (url_ttl is not None)
    given += ["--no-optimize"] * (not optimize) + ["--no-checkpoint"] * (not checkpoint)
    given += ["--no-sort"] * (not sort) + ["--v2-checkpoints"] * v2_checkpoints
    given += ["--no-vacuum"] * (not vacuum) + ["--dry-run"] * dry_run + ["--json"] * as_json
    raise typer.Exit(run_job(out, "maintain", location, given, on=on, detach=detach, run_id=run_id, memory=memory))


app.registered_commands.extend(jobs.registered_commands)
