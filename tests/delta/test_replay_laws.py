"""Test with random logs that replay equals a simple oracle, and that pages equal a full read."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from delta_tables.folder_store import FolderStore
from delta_tables.handmade import (
    Action,
    HandmadeLog,
    State,
    add,
    expected_files,
    found_files,
    metadata,
    protocol,
    remove,
    vector,
)
from deltaic.delta.log import DeltaLog
from deltaic.delta.logical_files import canonical_path
from deltaic.delta.scan.file_batches import Position
from hypothesis import given, settings
from laws import tries

FILES = {
    "plain": ["a.parquet"],
    "folder": ["p=1/b.parquet", "p%3D1/b.parquet", "p=1%2Fb.parquet"],
    "space": ["p=x%20y/c d.parquet", "p=x%20y/c%20d.parquet"],
    "percent": ["p=x%2520y/e.parquet", "p=x%2520y/%65.parquet"],
    "absolute": ["file:/data/f.parquet", "/data/f.parquet", "file:///data/f.parquet", "file:/data/%66.parquet"],
    "bucket": ["s3://bucket/g.parquet", "s3a://bucket/g.parquet", "s3n://bucket/%67.parquet"],
    "colon": ["t=10:00/h.parquet", "t=10%3A00/h.parquet"],
    "unicode": ["p=\u00fc/i.parquet", "p=%C3%BC/i.parquet"],
    "other": ["j.parquet", "%6A.parquet"],
}
VECTORS = [
    None,
    vector("ab^-aqEH.-t@S}K{vb[*k^"),
    vector("ab^-aqEH.-t@S}K{vb[*k^", 9),
    vector("cd^-aqEH.-t@S}K{vb[*k^", None),
]
SPELLED = {spelling: name for name, spellings in FILES.items() for spelling in spellings}

spellings = st.sampled_from(sorted(SPELLED))
commits = st.lists(
    st.dictionaries(
        st.tuples(spellings, st.integers(0, 3)),
        st.tuples(st.booleans(), st.integers(0, 99)),
        max_size=6,
    ).map(
        lambda file_actions: list(
            {(SPELLED[path], v): (path, v, live_and_size) for (path, v), live_and_size in file_actions.items()}.values()
        )
    ),
    min_size=1,
    max_size=8,
)


@st.composite
def storages(draw: st.DrawFn, versions: int) -> list[Any]:
    """Draw the storage of a log: checkpoints, compactions, checksums and a hint."""
    at = st.integers(0, versions - 1)
    rows = st.sampled_from([1, 2, 1000])
    kinds = st.sampled_from(["json", "struct", "both"])
    steps: list[Any] = []
    for _ in range(draw(st.integers(0, 3))):
        options = {"row_group": draw(rows), "statistics": draw(kinds)}
        match draw(st.sampled_from(["classic", "multipart", "v2", "compact", "checksum"])):
            case "classic":
                steps.append(("classic", (draw(at),), options))
            case "multipart":
                steps.append(("multipart", (draw(at), draw(st.integers(1, 4))), options))
            case "v2":
                form = draw(st.sampled_from(["json", "parquet"]))
                steps.append(("v2", (draw(at), form, draw(st.integers(0, 3))), options))
            case "compact":
                start = draw(at)
                steps.append(("compact", (start, draw(st.integers(start, versions - 1))), {}))
            case "checksum":
                steps.append(("checksum", (draw(at),), {}))
    steps.append(("hint", (draw(st.integers(0, versions + 2)),), {}))
    return steps


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[Action]], list[Any]]:
    history = [[metadata(), protocol(3, 7, "deletionVectors")]]
    for number, file_actions in enumerate(draw(commits)):
        history.append(
            [
                add(path, number * 100 + size, vector=VECTORS[v]) if live else remove(path, VECTORS[v])
                for path, v, (live, size) in file_actions
            ]
        )
    return history, draw(storages(len(history)))


class SpelledLog(HandmadeLog):
    """Log whose oracle knows all spellings of a file's path."""

    def replay(self, commits: list[list[Action]]) -> State:
        state = State()
        for kind, action in (item for actions in commits for line in actions for item in line.items()):
            if kind in ("add", "remove"):
                for key in [key for key in {**state.files, **state.tombstones} if _is_same_file(key, action)]:
                    state.files.pop(key, None)
                    state.tombstones.pop(key, None)
            state.apply([{kind: action}])
        return state


def _is_same_file(key: tuple[str, str | None], action: Action) -> bool:
    vector = action.get("deletionVector")
    offset = "" if not vector or vector.get("offset") is None else f"@{vector['offset']}"
    vector_id = None if not vector else f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"
    return SPELLED[key[0]] == SPELLED[action["path"]] and key[1] == vector_id


@contextmanager
def written_log(history: list[list[Action]], storage: list[Any]) -> Iterator[SpelledLog]:
    with tempfile.TemporaryDirectory() as folder:
        log = SpelledLog(Path(folder))
        for actions in history:
            log.commit(*actions)
        for step, arguments, options in storage:
            getattr(log, step)(*arguments, **options)
        yield log


@settings(deadline=None, max_examples=tries(40))
@given(cases())
def test_replay_equals_the_oracle_however_the_log_is_stored(case: tuple[list[list[Action]], list[Any]]) -> None:
    history, storage = case
    with written_log(history, storage) as log:
        delta = DeltaLog(FolderStore(log.root))
        for version in {len(history) - 1, len(history) // 2}:
            expected = log.state(version)
            snapshot = delta.snapshot(version)
            assert found_files(snapshot.files(batch_rows=2)) == expected_files(expected)
            assert snapshot.totals() == (len(expected.files), sum(action["size"] for action in expected.files.values()))


@settings(deadline=None, max_examples=tries(20))
@given(cases(), st.integers(1, 3), st.integers(1, 5))
def test_pages_equal_a_full_read(case: tuple[list[list[Action]], list[Any]], size: int, batch_rows: int) -> None:
    history, storage = case
    with written_log(history, storage) as log:
        delta = DeltaLog(FolderStore(log.root))
        latest = len(history) - 1
        full_read = [row for batch in delta.snapshot(latest).files() for row in batch.to_pylist()]
        paged: list[Any] = []
        position: Position | None = None
        while True:
            page: list[Any] = []
            for batch in delta.snapshot(latest, at=position).scan(None, batch_rows, position):
                count = min(size - len(page), batch.files.num_rows)
                page += batch.files.slice(0, count).to_pylist()
                position = batch.position(count)
                if len(page) == size:
                    break
            paged += page
            if len(page) < size:
                break
        assert paged == full_read


@settings(deadline=None, max_examples=tries(15))
@given(cases(), cases())
def test_the_order_depends_on_the_checkpoint_alone(
    case: tuple[list[list[Action]], list[Any]], other_case: tuple[list[list[Action]], list[Any]]
) -> None:
    history, storage = case
    compactions = [step for step in other_case[1] if step[0] in ("hint", "checksum")]
    with written_log(history, storage) as log:
        delta = DeltaLog(FolderStore(log.root))
        first = delta.snapshot(len(history) - 1)
        first_files = [row for batch in first.files() for row in batch.to_pylist()]
        for step, arguments, options in compactions:
            getattr(log, step)(*(min(argument, len(history) - 1) for argument in arguments), **options)
        log.compact(0, len(history) - 1)
        if len(history) > 2:
            log.compact(1, len(history) - 2)
        second = delta.snapshot(len(history) - 1)
        assert first.base == second.base
        assert first_files == [row for batch in second.files() for row in batch.to_pylist()]


@settings(deadline=None)
@given(spellings, spellings)
def test_canonical_paths_are_equal_exactly_for_the_same_file(first: str, second: str) -> None:
    assert (canonical_path(first) == canonical_path(second)) == (SPELLED[first] == SPELLED[second])
