"""Builds every kind of table that Spark + Delta can write, with the pipeline's session, for the tests to read.

    python tests/golden/build.py              # all of them, into tests/golden/tables
    python tests/golden/build.py plain ...    # some

Each function is one table and its docstring says what it shows (also in its `golden.json`); tests/README.md lists them.
"""

# ruff: noqa: T201 -- building takes minutes and shows what it does

import sys
import tempfile
import time
from pathlib import Path

from deltaic_pipeline.spark.session import session

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.definitions import acceptance, features, logs, plain  # noqa: F401 -- importing them registers their tables
from golden.workbench import BUILDERS, Bench, build, store

__all__ = ["BUILDERS"]


def main(names: list[str]) -> int:
    """Build the named tables, or all, store them, and return how many failed."""
    spark = session("golden tables", tests=True)
    failed = []
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        for name in names or list(BUILDERS):
            began = time.monotonic()
            try:
                build(Bench(spark, Path(folder), name))
            except Exception as failure:  # noqa: BLE001 -- shown, and counted below
                failed.append(name)
                print(f"{name} FAILED: {str(failure)[:600]}", flush=True)
                continue
            store(Path(folder), name, Path(__file__).with_name("tables"))
            print(f"{name} {time.monotonic() - began:.1f} s", flush=True)
    print(f"built {len(names or BUILDERS) - len(failed)}, failed {len(failed)} {failed}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
