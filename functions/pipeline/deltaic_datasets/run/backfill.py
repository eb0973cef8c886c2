"""Run a dataset for each date or hour of a period: `python -m deltaic_datasets.run.backfill FILE --from --to`."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from deltaic.errors import DeltaicError
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import exit_code
from deltaic_pipeline.job_command import Report, run_job, unexpected_error
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.run_log import open_table, transaction_of
from deltaic_pipeline.table.transactions import Transaction
from deltaic_terminal.progress import Progress

from deltaic_datasets.file.dataset_model import Dataset
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.file.file_text import text_of
from deltaic_datasets.run.job import job
from deltaic_datasets.run.run_state import describe_summary
from deltaic_datasets.run.step_execution import Detail, StepResult, run_steps
from deltaic_datasets.run.time_steps import Backfill, BackfillStep, backfill_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

OpenTable = Callable[[str], "DeltaTable | None"]
"""Function that returns a Delta table at its version before the backfill began; None if it does not exist."""

RESUME_HINT = "run the same command again to continue; steps that are done are skipped"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps of the backfill that the command line describes, and return the exit code."""
    options = parser("backfill").parse_args(arguments, argparse.Namespace(dry_run=False))
    job = partial(_run_backfill, options)
    return run_job(job, as_json=options.json, show_values=options.show_values, stopped=RESUME_HINT)


def requested_backfill(options: argparse.Namespace) -> Backfill:
    """Return the backfill of a command line; raises a DeltaicError for invalid arguments or an invalid dataset file."""
    return backfill_of(
        text_of(options.file),
        options.file,
        dict(options.variables),
        first=options.first,
        last=options.last,
        unit=options.step,
        variable=options.variable,
        run_id_prefix=options.run_id,
    )


def _run_backfill(options: argparse.Namespace, _: Progress, report: Report) -> None:
    backfill = requested_backfill(options)
    access = S3Access.from_environment()
    open_once = cache(lambda location: open_table(location, access))

    def run(step: BackfillStep, detail: Detail) -> StepResult:
        return _run_step(options, step, detail, open_once)

    run_steps(backfill, run, report, as_json=options.json)


def _run_step(options: argparse.Namespace, step: BackfillStep, detail: Detail, open_once: OpenTable) -> StepResult:
    began = time.monotonic()
    arguments = {**vars(options), "variables": list(step.variables.items()), "run_id": step.run_id}
    try:
        dataset, _ = dataset_of(text_of(options.file), options.file, step.variables)
        if _is_done(dataset, step.run_id, options.runs or dataset.runs_location, open_once):
            return StepResult("skipped", "was done before")
        summary = job(argparse.Namespace(**arguments), step.run_id, lambda now: detail(now.text), lambda *_: None)
    except Exception as failure:
        if _is_interruption(failure):
            raise
        refusal = failure if isinstance(failure, DeltaicError) else unexpected_error(failure)
        return StepResult("failed", refusal.message, exit_code(refusal), time.monotonic() - began)
    message, repeated = (describe_summary(summary), summary.repeated) if summary else ("", False)
    return StepResult("skipped" if repeated else "done", message, seconds=time.monotonic() - began)


def _is_done(dataset: Dataset, run_id: str, runs: str, open_once: OpenTable) -> bool:
    def has(location: str, transaction: Transaction) -> bool:
        table = open_once(location)
        return table is not None and table.transaction_version(transaction.application) is not None

    rows, location = Transaction.of_run(run_id, dataset.name), dataset.target.location
    if not has(location, rows):
        return False
    pending = dataset.quarantines and not has(dataset.quarantine_location, rows.of_target(location))
    return not pending or has(runs, transaction_of(dataset.name, location, run_id, done=True))


def _is_interruption(failure: BaseException) -> bool:
    error: BaseException | None = failure
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


if __name__ == "__main__":
    sys.exit(main())
