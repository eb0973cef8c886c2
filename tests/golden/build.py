"""Builds every kind of table that Spark + Delta can write, with the pipeline's session, for the tests to read.

    python tests/golden/build.py              # all of them, into tests/golden/tables
    python tests/golden/build.py plain ...    # some

Each function is one table and its docstring says what it shows (also in its `golden.json`):

    values and names    plain, empty, all_types, partitioned_types, odd_columns, char_varchar, converted, evolved
    writes              overwritten, restored_optimized, vacuumed, idempotent, constraints, append_only, defaults
    change data feed    change_feed, change_feed_later, deletion_vectors_change_feed, column_mapping_change_feed
    deletion vectors    deletion_vectors (`u`), deletion_vectors_inline (`i`), clone_deletion_vectors (`p`), everything
    column mapping      column_mapping_name, column_mapping_id, column_mapping_later, iceberg_compat
    newer types         timestamp_ntz, type_widening, variant, variant_shredded
    checkpoints         checkpoint_classic, checkpoint_partitioned, checkpoint_multipart, checkpoint_struct_stats,
                        checkpoint_v2_json, checkpoint_v2_parquet, checkpoint_v2_sidecars
    logs                truncated_log, log_compaction, in_commit_timestamps, in_commit_timestamps_later
    writers' features   row_tracking, clustered, identity_generated, vacuum_protocol_check, checkpoint_protection,
                        materialized_partitions
    absolute paths      clone, clone_deletion_vectors (each with its `source` beside it)
    clients' own tests  timestamp_ntz_change_feed, columns_added_change_feed, columns_added_partitioned_change_feed,
                        twelve_thousand_rows, gzipped
"""

# ruff: noqa: T201 -- building takes minutes and shows what it does

import sys
import tempfile
import time
from pathlib import Path

from deltaic_pipeline.session import session

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.definitions import acceptance, features, logs, plain  # noqa: F401 -- importing them registers their tables
from golden.workbench import BUILDERS, Bench, build, store


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
