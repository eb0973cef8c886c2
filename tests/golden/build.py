"""Build the golden tables, which contain everything that Spark and Delta can write.

    python tests/golden/build.py              # all of them, into tests/golden/tables
    python tests/golden/build.py plain ...    # some

Each function builds a table. Its docstring describes the table, and is also in its `golden.json`; tests/README.md lists
all tables.
"""

# ruff: noqa: T201 -- building takes minutes and prints its progress

import sys
import tempfile
import time
from pathlib import Path

from deltaic_pipeline.spark.session import session

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.definitions import acceptance, features, logs, plain  # noqa: F401 -- their imports register the tables
from golden.workbench import BUILDERS, Bench, build, store

__all__ = ["BUILDERS"]


def main(names: list[str]) -> int:
    """Build and store the named tables, or all, and return the number of failures."""
    spark = session("golden tables", tests=True)
    failed = []
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        for name in names or list(BUILDERS):
            began = time.monotonic()
            try:
                build(Bench(spark, Path(folder), name))
            except Exception as failure:  # noqa: BLE001 -- printed, and counted below
                failed.append(name)
                print(f"{name} FAILED: {str(failure)[:600]}", flush=True)
                continue
            store(Path(folder), name, Path(__file__).with_name("tables"))
            print(f"{name} {time.monotonic() - began:.1f} s", flush=True)
    print(f"built {len(names or BUILDERS) - len(failed)}, failed {len(failed)} {failed}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
