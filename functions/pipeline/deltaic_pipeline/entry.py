"""Script for `spark-submit`: `entry.py JOB ARGUMENTS` does the same as `python -m` with the job's module."""

import sys
from collections.abc import Sequence
from importlib import import_module

JOBS = {
    "run": "deltaic_datasets.run.job",
    "backfill": "deltaic_datasets.run.backfill",
    "maintain": "deltaic_pipeline.maintain",
    "publish": "deltaic_pipeline.publish",
    "usage": "deltaic_pipeline.usage",
    "views": "deltaic_pipeline.views",
}
"""Module of each job, whose `main` runs it."""


def main(arguments: Sequence[str]) -> int:
    """Run the job named by the first argument, pass it the other arguments, and return its exit code."""
    job, *rest = arguments or ("",)
    if job not in JOBS:
        print(f"error: '{job}' is not a job: use one of {', '.join(JOBS)}", file=sys.stderr)
        return 2
    code: int = import_module(JOBS[job]).main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
