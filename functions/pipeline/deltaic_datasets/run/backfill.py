"""The job that builds a dataset for each step of a time: `python -m deltaic_datasets.run.backfill FILE --from --to`."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from deltaic.errors import DeltaicError
from deltaic_pipeline.arguments import parser
from deltaic_pipeline.failures import exit_code
from deltaic_pipeline.job_command import Tell, conduct, unforeseen
from deltaic_pipeline.spark.storage_access import S3Access
from deltaic_pipeline.table.run_log import opened, transaction_of
from deltaic_pipeline.table.transactions import Transaction

from deltaic_datasets.file.dataset_model import Dataset
from deltaic_datasets.file.file_checks import dataset_of
from deltaic_datasets.file.file_text import text_of
from deltaic_datasets.run.job import job
from deltaic_datasets.run.run_state import told
from deltaic_datasets.run.step_execution import Detail, Outcome, carry_out
from deltaic_datasets.run.time_steps import Backfill, Step, backfill_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

Known = Callable[[str], "DeltaTable | None"]
"""Opens a table once, so that it shows what was committed before the backfill began."""

GOES_ON = "the same command goes on, and does nothing twice"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps that the command line describes and return the exit code."""
    options = parser("backfill").parse_args(arguments, argparse.Namespace(dry_run=False))
    return conduct(
        lambda _, tell: _job(options, tell), as_json=options.json, show_values=options.show_values, stopped=GOES_ON
    )


def asked(options: argparse.Namespace) -> Backfill:
    """Return the steps that a command line asks for; raises what is wrong with it, or with the file."""
    return backfill_of(
        text_of(options.file),
        options.file,
        dict(options.variables),
        first=options.first,
        last=options.last,
        unit=options.step,
        variable=options.variable,
        named=options.run_id,
    )


def _job(options: argparse.Namespace, tell: Tell) -> None:
    backfill = asked(options)
    access = S3Access.from_environment()
    known = cache(lambda location: opened(location, access))

    def run(step: Step, detail: Detail) -> Outcome:
        return _ran(options, step, detail, known)

    carry_out(backfill, run, tell, as_json=options.json)


def _ran(options: argparse.Namespace, step: Step, detail: Detail, known: Known) -> Outcome:
    began = time.monotonic()
    one = argparse.Namespace(**{**vars(options), "variables": list(step.variables.items()), "run_id": step.run_id})
    try:
        dataset, _ = dataset_of(text_of(options.file), options.file, step.variables)
        if _done(dataset, step.run_id, options.runs or dataset.runs_location, known):
            return Outcome("skipped", "was done before")
        summary = job(one, step.run_id, lambda now: detail(now.text), lambda *_: None)
    except Exception as failure:
        if _interrupted(failure):
            raise
        refusal = failure if isinstance(failure, DeltaicError) else unforeseen(failure)
        return Outcome("failed", refusal.message, exit_code(refusal), time.monotonic() - began)
    said, repeated = (told(summary), summary.repeated) if summary else ("", False)
    return Outcome("skipped" if repeated else "done", said, seconds=time.monotonic() - began)


def _done(dataset: Dataset, run_id: str, runs: str, known: Known) -> bool:
    """Tell whether a run has all that it would write; of rows put aside it may have had none."""

    def has(location: str, transaction: Transaction) -> bool:
        table = known(location)
        return table is not None and table.transaction_version(transaction.application) is not None

    rows, location = Transaction.of_run(run_id, dataset.name), dataset.target.location
    if not has(location, rows):
        return False
    aside = dataset.quarantines and not has(dataset.quarantine_location, rows.of_target(location))
    return not aside or has(runs, transaction_of(dataset.name, location, run_id, done=True))


def _interrupted(failure: BaseException) -> bool:
    """Tell whether something failed on the way out of what a signal has ended."""
    within: BaseException | None = failure
    while within is not None and not isinstance(within, KeyboardInterrupt):
        within = within.__context__
    return within is not None


if __name__ == "__main__":
    sys.exit(main())
