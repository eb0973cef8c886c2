"""A filtered change feed leads from the visible rows of a version to those of the next.

The tests write files into a log, and remember which rows each file has.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import Action, HandmadeLog, add, metadata, protocol, remove
from deltaic.partition_filters import parse
from deltaic.sharing.rights.table_rights import Rights
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from sharing.means import Feed, lines

CDF = {"delta.enableChangeDataFeed": "true"}
DELTA = "responseformat=delta;readerfeatures=deletionvectors,columnmapping"
REFRESH = json.dumps({"view": "s.d.v", "run": "r"})
LOST, GAINED = {"delete", "update_preimage"}, {"insert", "update_postimage"}
FILTERS: dict[str, set[str | None]] = {
    "p = 'a'": {"a"},
    "p IN ('a', 'b')": {"a", "b"},
    "p <> 'a'": {"b", "c"},
    "p IS NULL": {None},
}
PARTITIONS = ("a", "b", "c", None)
METRICS = {"deltalake": "num_target_rows_updated", "spark": "numTargetRowsUpdated"}
formats = pytest.mark.parametrize("capabilities", [None, DELTA], ids=["parquet", "delta"])

Row = tuple[int, int]
"""Name and value; the file has the partition."""
Change = tuple[str, Row]


class TrackedTable:
    """Table with one file for each partition, which remembers the rows of each version."""

    def __init__(self, root: Path) -> None:
        self.log = HandmadeLog(root)
        self.log.commit(protocol(1, 4), metadata(CDF))
        self.rows: dict[int, tuple[str | None, int]] = {}
        self.files: dict[str | None, str] = {}
        self.rows_of_files: dict[str, list[Change]] = {}
        self.states: list[dict[str | None, Counter[Row]]] = [self.state()]
        self.recorded: list[dict[str | None, list[Change]]] = [{}]

    def state(self) -> dict[str | None, Counter[Row]]:
        rows_by_partition: dict[str | None, Counter[Row]] = {p: Counter() for p in PARTITIONS}
        for name, (p, value) in self.rows.items():
            rows_by_partition[p][name, value] += 1
        return rows_by_partition

    def commit(self, after: dict[int, tuple[str | None, int]], info: Action) -> None:
        before, version = self.rows, len(self.log.commits)
        changes: dict[str | None, list[Change]] = {}
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if old == new:
                continue
            update = old is not None and new is not None
            if old is not None:
                changes.setdefault(old[0], []).append(("update_preimage" if update else "delete", (name, old[1])))
            if new is not None:
                changes.setdefault(new[0], []).append(("update_postimage" if update else "insert", (name, new[1])))
        self.rows = after
        actions: list[Action] = [{"commitInfo": info}]
        for number, (p, rows) in enumerate(changes.items()):
            if p in self.files:
                old_file = self.files.pop(p)
                actions.append(remove(old_file, partitionValues={"p": p}, size=1, extendedFileMetadata=True))
            remaining = list(self.state()[p])
            if remaining:
                self.files[p] = file_name = f"v{version}-{number}"
                self.rows_of_files[file_name] = [("row", row) for row in remaining]
                actions.append(add(file_name, p=p))
            file_name = f"c{version}-{number}"
            self.rows_of_files[file_name] = rows
            actions.append({"cdc": {"path": file_name, "partitionValues": {"p": p}, "size": 1, "dataChange": False}})
        self.log.commit(*actions)
        self.states.append(self.state())
        self.recorded.append(changes)

    def feed(self, feed: Feed, version: int) -> list[Change]:
        return list(changes_in(self.rows_of_files, lines(feed.answer(version, version))))


def changes_in(rows_of_files: dict[str, list[Change]], answer_lines: list[dict[str, Any]]) -> Iterator[Change]:
    """Yield kind and row of each change in a feed."""
    for line in answer_lines:
        for kind in line.keys() & {"add", "remove", "cdf", "file"}:
            ((action_name, action),) = line[kind].get("deltaSingleAction", {kind: line[kind]}).items()
            name = (action.get("path") or action["url"]).partition("?")[0].rpartition("/")[2]
            for change_kind, row in rows_of_files[name]:
                yield {"add": "insert", "remove": "delete"}.get(action_name, change_kind), row


def rights_by(text: str) -> Rights:
    return Rights((parse(text),))


def check(table: TrackedTable, feed: Feed, shown: set[str | None], *, exact: Sequence[bool]) -> None:
    for version in range(1, len(table.states)):
        before, after = (
            sum((state[p] for p in shown), Counter[Row]()) for state in table.states[version - 1 : version + 1]
        )
        changes = table.feed(feed, version)
        lost = Counter(row for kind, row in changes if kind in LOST)
        gained = Counter(row for kind, row in changes if kind in GAINED)
        assert lost <= before
        assert before - lost + gained == after
        kinds = Counter(kind for kind, _ in changes)
        assert kinds["update_preimage"] == kinds["update_postimage"]
        names = {kind: {row[0] for change_kind, row in changes if change_kind == kind} for kind in LOST | GAINED}
        assert names["update_preimage"] == names["update_postimage"]
        if exact[version - 1]:
            by_partition = table.recorded[version].items()
            recorded = [change for p, group in by_partition if p in shown for change in group]
            assert Counter(changes) == Counter(recorded)


edits = st.lists(
    st.tuples(
        st.sampled_from(["insert", "delete", "correct", "move"]), st.integers(0, 12), st.sampled_from(PARTITIONS)
    ),
    min_size=1,
    max_size=6,
)


def apply_edits(rows: dict[int, tuple[str | None, int]], steps: list[Any], next_: int, allowed: set[str]) -> Any:
    after = dict(rows)
    for number, (kind, at, p) in enumerate(steps):
        if kind not in allowed:
            continue
        if kind == "insert":
            after[next_ + number] = (p, 0)
        elif (row_names := sorted(rows))[at % len(rows) :] and (name := row_names[at % len(rows)]) in after:
            old = after.pop(name)
            if kind == "correct":
                after[name] = (old[0], old[1] + 1)
            elif kind == "move":
                after[name] = (p, old[1])
    return after


@settings(max_examples=tries(60), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["UPDATE", "DELETE", "MERGE", "upsert", "WRITE", "refresh"]), edits),
        min_size=1,
        max_size=5,
    ),
    which=st.sampled_from(sorted(FILTERS)),
    writer=st.sampled_from(sorted(METRICS)),
    delta=st.booleans(),
    is_view=st.booleans(),
)
def test_feed_leads_to_the_visible_rows_after_any_commit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], which: str, writer: str, *, delta: bool, is_view: bool
) -> None:
    table = TrackedTable(tmp_path_factory.mktemp("story"))
    table.commit({number: (PARTITIONS[number % 4], 0) for number in range(8)}, {"operation": "WRITE"})
    exact = [True]
    allowed = {
        "UPDATE": {"correct", "move"},
        "DELETE": {"delete"},
        "MERGE": {"insert", "delete"},
        "upsert": {"insert", "delete", "correct", "move"},
        "WRITE": {"insert", "delete"},
        "refresh": {"insert", "delete", "correct"},
    }
    for number, (kind, row_edits) in enumerate(steps):
        after = apply_edits(table.rows, row_edits, 100 * (number + 1), allowed[kind]) if table.rows else {}
        updated = sum(after[name] != table.rows[name] for name in after.keys() & table.rows.keys())
        info: Action = {"operation": "MERGE" if kind in {"upsert", "refresh"} else kind}
        if info["operation"] == "MERGE":
            info["operationMetrics"] = {METRICS[writer]: str(updated) if writer == "spark" else updated}
        if kind == "refresh":
            info["userMetadata"] = REFRESH
        # Only in views does the mark of a refresh show that no row has moved.
        exact.append(kind == "refresh" if is_view else kind in {"DELETE", "MERGE"})
        table.commit(after, info)
    feed = Feed(table.log.root, DELTA if delta else None, rights=rights_by(which), is_view=is_view)
    check(table, feed, FILTERS[which], exact=exact)


@formats
def test_two_rows_that_swap_partitions_are_no_update(tmp_path: Path, capabilities: str | None) -> None:
    """Neither row counts nor the kinds in cdc files distinguish this from an update of two rows."""
    table = TrackedTable(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2), 3: ("a", 3)}, {"operation": "WRITE"})
    table.commit({1: ("b", 1), 2: ("a", 2), 3: ("a", 3)}, {"operation": "UPDATE", "userMetadata": REFRESH})
    changes = table.feed(Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), 2)
    assert {kind for kind, _ in changes} == {"delete", "insert"}
    check(table, Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), {"a"}, exact=[True, False])


@formats
@pytest.mark.parametrize("operation", ["WRITE", "STREAMING UPDATE", "delete", "", None, 7])
def test_unknown_operation_is_shown_by_its_files(tmp_path: Path, capabilities: str | None, operation: Any) -> None:
    table = TrackedTable(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2)}, {"operation": "WRITE"})
    table.commit({1: ("b", 1), 2: ("a", 2)}, {"operation": operation})
    check(table, Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), {"a"}, exact=[True, False])


@formats
@pytest.mark.parametrize("mark", ["", '"view"', "[]", "{", "{}", None, 7, {"run": "view"}])
def test_commit_to_a_view_without_refresh_is_shown_by_its_files(
    tmp_path: Path, capabilities: str | None, mark: Any
) -> None:
    table = TrackedTable(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2)}, {"operation": "WRITE"})
    table.commit({1: ("b", 1), 2: ("a", 2)}, {"operation": "MERGE", "userMetadata": mark})
    check(table, Feed(tmp_path, capabilities, rights=rights_by("p = 'a'"), is_view=True), {"a"}, exact=[True, False])


@formats
@pytest.mark.parametrize("values", [{}, None])
def test_cdc_file_without_partition_is_not_shown(
    tmp_path: Path, capabilities: str | None, values: dict[str, str] | None
) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(1, 4), metadata(CDF))
    log.commit(add("none", p=None), add("other", p="b"))
    cdc = {"cdc": {"path": "canary", "partitionValues": values, "size": 1, "dataChange": False}}
    log.commit({"commitInfo": {"operation": "DELETE"}}, add("more", p=None), cdc)
    answer = lines(Feed(tmp_path, capabilities, rights=rights_by("p IS NULL")).answer(2, 2))
    assert "canary" not in str(answer)
    assert "more" in str(answer)


@formats
def test_commit_with_new_metadata_is_shown_by_its_files(tmp_path: Path, capabilities: str | None) -> None:
    table = TrackedTable(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2)}, {"operation": "WRITE"})
    table.commit({}, {"operation": "DELETE"})
    first, last = table.log.commits[2][0], table.log.commits[2][1:]
    table.log.commits.pop()
    table.log.commit(first, metadata({**CDF, "more": "1"}), *last)
    changes = table.feed(Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), 2)
    assert changes == [("delete", (1, 1))]
