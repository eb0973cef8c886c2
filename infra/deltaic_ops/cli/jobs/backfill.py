"""A backfill on EMR Serverless: a job run for each step, one after the other."""

import time
from datetime import UTC, datetime
from typing import Any

from deltaic.errors import DeltaicError, InvalidParameter
from deltaic_datasets.run.backfill import asked
from deltaic_datasets.run.stepping import Detail, Outcome, carry_out
from deltaic_datasets.run.time_steps import Step
from deltaic_pipeline.command import conduct
from deltaic_pipeline.failures import exit_code

from deltaic_ops.cli.jobs.jobs import JobLine, request, run_name
from deltaic_ops.cli.operator import Operator
from deltaic_ops.jobs import files
from deltaic_ops.jobs.runs import ENDED, POLL_SECONDS, JobRuns


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
