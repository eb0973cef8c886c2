"""The job that builds a dataset as its file says: `python -m deltaic_pipeline.run FILE`, here and by spark-submit."""

import argparse
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from deltaic.errors import NotFound
from deltaic.settings import settings

from deltaic_pipeline.access import S3Access
from deltaic_pipeline.attempt import refusals
from deltaic_pipeline.building import build
from deltaic_pipeline.command import Tell, conduct
from deltaic_pipeline.datasets.checking import dataset_of
from deltaic_pipeline.failures import EXIT_CODES, PipelineError
from deltaic_pipeline.planning import plan
from deltaic_pipeline.register import connect
from deltaic_pipeline.runs import Run, Summary
from deltaic_pipeline.session import session
from deltaic_pipeline.steps import Progress, step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = """examples:
  python -m deltaic_pipeline.run patients.yaml --dry-run
  python -m deltaic_pipeline.run patients.yaml --run-id 2026-11-22
  python -m deltaic_pipeline.run s3://bucket/datasets/patients.yaml --json --wait 600

AWS is found through AWS_ENDPOINT_URL, AWS_PROFILE, AWS_REGION and keys, as by any AWS tool. A run that was killed is
started again with its --run-id: what it had written is not written twice.
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line of the job."""
    line = argparse.ArgumentParser(
        prog="python -m deltaic_pipeline.run",
        description="Build a dataset as its file says.",
        epilog=EXAMPLES + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    line.add_argument("file", metavar="FILE", help="the dataset file: a path or s3://bucket/key")
    line.add_argument("--run-id", default="", help="name of this run: a repetition writes nothing twice")
    line.add_argument("--dry-run", action="store_true", help="show plan, differences and counts; change nothing")
    line.add_argument("--json", action="store_true", help="a JSON object a line on stdout instead of text")
    line.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait for another writer of the table")
    line.add_argument("--catalog", metavar="NAME", help="DynamoDB table of the catalog (default: CATALOG_TABLE)")
    line.add_argument("--memory", default="", metavar="SIZE", help="Spark's heap on this machine, such as 4g (1g)")
    line.add_argument(
        "--jar",
        action="append",
        default=[],
        metavar="PATH",
        help="put on the class path, as a database's driver; on a cluster spark.jars does that",
    )
    return line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line describes and return the exit code."""
    given = parser().parse_args(arguments)
    return conduct(
        lambda progress, tell: _job(given, progress, tell),
        as_json=given.json,
        stopped="what was not committed is not in the table",
    )


def _job(given: argparse.Namespace, progress: Progress, tell: Tell) -> None:
    dataset, document = dataset_of(_text(given.file), given.file)

    def origin(path: Sequence[str | int]) -> str:
        place = document.place(path)
        return f"{given.file}:{place.line}: {place.field}"

    run_id = given.run_id or uuid.uuid4().hex
    run = Run(dataset, run_id, timedelta(seconds=given.wait), origin)
    if not given.dry_run:
        again = [] if given.run_id else [f"run {run_id}: if it is killed, start it again with --run-id {run_id}"]
        tell(again, {"event": "begun", "run": run_id, "dataset": dataset.name, "location": dataset.target.location})
    with step(progress, "Starting Spark") as said:
        spark = _spark(given, said)
    if given.dry_run:
        with step(progress, "Reading and counting"), refusals():
            found = plan(spark, run)
        tell(list(found.lines()), found.event())
        return
    catalog = connect(given.catalog or settings().catalog_table, settings().tokens_table)
    summary = build(spark, run, catalog, progress)
    tell(list(_table(summary)), {"event": "done", **asdict(summary)})


def _spark(given: argparse.Namespace, said: Callable[[str], None]) -> "SparkSession":
    jars = [Path(jar).absolute() for jar in given.jar]
    for jar in jars:
        if not jar.is_file():
            raise PipelineError(f"--jar {jar} is not a file.")
    return session("deltaic run", S3Access.from_environment(), memory=given.memory, jars=jars, report=said)


def _text(file: str) -> str:
    """Read the dataset file; raises `NotFound`, `PipelineError`."""
    if not file.startswith("s3://"):
        try:
            return Path(file).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotFound(f"there is no file {file}.") from None
        except (OSError, UnicodeDecodeError) as failure:
            raise PipelineError(f"{file} cannot be read: {failure}.") from None
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = file.removeprefix("s3://").partition("/")
    try:
        content: bytes = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return content.decode()
    except ClientError as refusal:
        raise PipelineError(f"{file} cannot be read: {refusal.response['Error']['Code']}.") from None
    except (BotoCoreError, ValueError) as failure:
        raise PipelineError(f"{file} cannot be read: {failure}.") from None


def _table(summary: Summary) -> Sequence[str]:
    """Return the summary for people."""
    rate = summary.rows / max(summary.seconds, 0.001)
    version = "none" if summary.version is None else f"{summary.version}" + (" (repeated)" * summary.repeated)
    told = {
        "run": summary.run_id,
        "table": summary.location,
        "version": version,
        "rows": f"{summary.rows:,} in {summary.seconds:.1f} s ({rate:,.0f} rows/s)",
        "batches": "" if summary.batches == 1 else str(summary.batches),
        "quarantined": f"{summary.quarantined:,}" if summary.quarantined else "",
        **{name: f"{value:,}" for name, value in summary.metrics.items() if name in SHOWN and value},
        **{f"{verdict.name} ({verdict.action})": verdict.said for verdict in summary.verdicts},
    }
    width = max(len(name) for name in told)
    return [f"{name:<{width}}  {value}" for name, value in told.items() if value]


SHOWN = (
    "numFiles",
    "numOutputBytes",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetFilesAdded",
    "numTargetFilesRemoved",
    "numTargetBytesAdded",
)
"""What of Delta's own counts the summary shows."""


if __name__ == "__main__":
    sys.exit(main())
