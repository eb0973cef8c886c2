"""Golden tables whose log is the point: every form of checkpoint, compaction, truncation."""

import json
from typing import Any

from golden.definitions.plain import PEOPLE, people
from golden.workbench import Bench, golden


def _history(bench: Bench) -> None:
    """Make versions 1 to 4: appends and a rewriting delete, over two partitions."""
    bench.sql(
        "INSERT INTO {t} VALUES (1, 'a', 0.5D), (2, 'b', NULL), (3, NULL, 1.5D)",
        "INSERT INTO {t} VALUES (4, 'd', 2.0D)",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (5, repeat('long', 20), CAST('NaN' AS DOUBLE))",
    )


@golden
def checkpoint_classic(bench: Bench) -> None:
    """Classic checkpoints every two versions, statistics as JSON and as struct, and a tail of commits."""
    bench.create(PEOPLE, checkpointInterval="2")
    _history(bench)
    people(bench, 10, 2)


@golden
def checkpoint_partitioned(bench: Bench) -> None:
    """A classic checkpoint of a partitioned table: typed partition values, nulls and nasty text among them."""
    bench.create("id INT, day DATE, text STRING", "PARTITIONED BY (day, text)")
    bench.sql("INSERT INTO {t} VALUES (1, DATE'2026-01-01', 'a b'), (2, NULL, '50%'), (3, DATE'2026-01-02', NULL)")
    bench.checkpoint()
    bench.sql("INSERT INTO {t} VALUES (4, DATE'2026-01-03', 'x=y')", "DELETE FROM {t} WHERE id = 1")


@golden
def checkpoint_multipart(bench: Bench) -> None:
    """A checkpoint in several parts."""
    bench.create(PEOPLE)
    _history(bench)
    with bench.conf(checkpoint__partSize="2"):
        bench.checkpoint()
    people(bench, 10, 2)


@golden
def checkpoint_struct_stats(bench: Bench) -> None:
    """A checkpoint with statistics as struct only: their JSON has to be rebuilt."""
    bench.create(
        "id INT, name STRING, score DOUBLE, day DATE, ts TIMESTAMP, dec DECIMAL(10, 2), st STRUCT<a: BIGINT>",
        checkpoint__writeStatsAsJson="false",
        checkpoint__writeStatsAsStruct="true",
    )
    bench.sql(
        "INSERT INTO {t} VALUES (1, 'a', 0.5D, DATE'2026-01-01', TIMESTAMP'2026-01-01T01:02:03.456789Z', 1.50BD, "
        "named_struct('a', 1L)), (2, NULL, CAST('NaN' AS DOUBLE), NULL, NULL, NULL, NULL)",
        "INSERT INTO {t} (id) VALUES (3)",
    )
    bench.checkpoint()
    bench.sql("INSERT INTO {t} (id, name) VALUES (4, 'tail')")


@golden
def checkpoint_v2_json(bench: Bench) -> None:
    """A v2 checkpoint with a JSON manifest and one sidecar, over deletion vectors."""
    bench.create(PEOPLE, checkpointPolicy="v2", enableDeletionVectors="true")
    _history(bench)
    bench.checkpoint()
    people(bench, 10, 2)


@golden
def checkpoint_v2_parquet(bench: Bench) -> None:
    """A v2 checkpoint with a Parquet manifest."""
    with bench.conf(checkpointV2__topLevelFileFormat="parquet"):
        bench.create(PEOPLE, checkpointPolicy="v2")
        _history(bench)
        bench.checkpoint()
    people(bench, 10, 2)


@golden
def checkpoint_v2_sidecars(bench: Bench) -> None:
    """A v2 checkpoint with several sidecars, and a second checkpoint after it."""
    bench.create(PEOPLE, checkpointPolicy="v2")
    _history(bench)
    with bench.conf(checkpoint__partSize="2"):
        bench.checkpoint()
    people(bench, 10, 2)
    people(bench, 12, 2)
    bench.checkpoint()


@golden
def truncated_log(bench: Bench) -> None:
    """The commits before the checkpoint are gone: earlier versions cannot be read."""
    bench.create(PEOPLE)
    _history(bench)
    bench.checkpoint()
    people(bench, 10, 2)
    for version in range(4):
        (bench.log / f"{version:020}.json").unlink()


@golden
def log_compaction(bench: Bench) -> None:
    """A log compaction file over versions 1 to 4, beside the commits that it sums up (made by hand)."""
    bench.create(PEOPLE, enableDeletionVectors="true")
    _history(bench)
    people(bench, 10, 2)
    bench.rewrite(4, _compacted(bench, 1, 4), f"{1:020}.{4:020}.compacted.json")


def _compacted(bench: Bench, first: int, last: int) -> list[dict[str, Any]]:
    """Sum up commits (Delta protocol, "Log Compaction Files"): the latest action a file and kind, no commitInfo."""
    latest: dict[str, dict[str, Any]] = {}
    for version in range(first, last + 1):
        actions = bench.commit(version)
        # Within a commit an add may come before the remove of the same path with another vector.
        for action in sorted(actions, key=lambda action: "add" in action):
            ((kind, value),) = action.items()
            if kind in {"add", "remove"}:
                vector = value.get("deletionVector")
                latest[
                    json.dumps([value["path"], vector and vector["pathOrInlineDv"], vector and vector.get("offset")])
                ] = action
            elif kind != "commitInfo":
                latest[kind + str(value.get("appId", value.get("domain", "")))] = action
    return list(latest.values())
