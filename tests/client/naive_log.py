"""Replay a log in the simplest way, as an oracle for the lines of the server."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Action = dict[str, Any]


@dataclass(frozen=True)
class State:
    """Content of a version of a table."""

    protocol: Action
    metadata: Action
    adds: dict[str, Action] = field(default_factory=dict)
    """By raw path, which is unique within a version."""


def replay(log: Path, version: int) -> State:
    """Read all commits up to a version; if the first are deleted, start at a classic checkpoint."""
    newest: dict[str, Action] = {}
    adds: dict[str, Action] = {}
    for actions in _commits(log, version):
        for action in actions:
            if "remove" in action:
                adds.pop(action["remove"]["path"], None)
        for action in actions:
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
            newest |= {kind: action[kind] for kind in ("protocol", "metaData") if kind in action}
    return State(newest["protocol"], newest["metaData"], adds)


def _commits(log: Path, version: int) -> Iterator[list[Action]]:
    first = 0
    if not (log / f"{0:020}.json").exists():
        checkpoint = max(file for file in log.glob("*.checkpoint.parquet") if int(file.name[:20]) <= version)
        first = int(checkpoint.name[:20]) + 1
        yield [_without_nulls(row) for row in pq.read_table(checkpoint).to_pylist(maps_as_pydicts="strict")]
    for number in range(first, version + 1):
        text = (log / f"{number:020}.json").read_text(encoding="utf-8")
        yield [json.loads(line) for line in text.split("\n") if line]


def _without_nulls(row: Action) -> Action:
    (action,) = [(kind, value) for kind, value in row.items() if value is not None]
    return {action[0]: {name: value for name, value in action[1].items() if value is not None}}
