"""A row-filtered feed, row by row: from the rows that are seen of a version to those of the next, and no further.

Files are written by hand into a log, and which rows each holds is remembered beside it.
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
"""What it is called, and its value; its partition is the file's."""
Change = tuple[str, Row]


class Told:
    """A table whose rows are in one file for each partition, as whoever wrote it remembers them."""

    def __init__(self, root: Path) -> None:
        self.log = HandmadeLog(root)
        self.log.commit(protocol(1, 4), metadata(CDF))
        self.rows: dict[int, tuple[str | None, int]] = {}
        self.files: dict[str | None, str] = {}
        self.held: dict[str, list[Change]] = {}
        self.states: list[dict[str | None, Counter[Row]]] = [self.state()]
        self.recorded: list[dict[str | None, list[Change]]] = [{}]

    def state(self) -> dict[str | None, Counter[Row]]:
        found: dict[str | None, Counter[Row]] = {p: Counter() for p in PARTITIONS}
        for name, (p, value) in self.rows.items():
            found[p][name, value] += 1
        return found

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
                gone = self.files.pop(p)
                actions.append(remove(gone, partitionValues={"p": p}, size=1, extendedFileMetadata=True))
            own = list(self.state()[p])
            if own:
                self.files[p] = name_ = f"v{version}-{number}"
                self.held[name_] = [("row", row) for row in own]
                actions.append(add(name_, p=p))
            name_ = f"c{version}-{number}"
            self.held[name_] = rows
            actions.append({"cdc": {"path": name_, "partitionValues": {"p": p}, "size": 1, "dataChange": False}})
        self.log.commit(*actions)
        self.states.append(self.state())
        self.recorded.append(changes)

    def feed(self, feed: Feed, version: int) -> list[Change]:
        return list(changes_in(self.held, lines(feed.answer(version, version))))


def changes_in(held: dict[str, list[Change]], found: list[dict[str, Any]]) -> Iterator[Change]:
    """Yield kind and row of everything that a feed tells."""
    for line in found:
        for kind in line.keys() & {"add", "remove", "cdf", "file"}:
            ((spelled, action),) = line[kind].get("deltaSingleAction", {kind: line[kind]}).items()
            name = (action.get("path") or action["url"]).partition("?")[0].rpartition("/")[2]
            for told, row in held[name]:
                yield {"add": "insert", "remove": "delete"}.get(spelled, told), row


def rights_by(text: str) -> Rights:
    return Rights((parse(text),))


def check(table: Told, feed: Feed, shown: set[str | None], *, exact: Sequence[bool]) -> None:
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
        names = {kind: {row[0] for told, row in changes if told == kind} for kind in LOST | GAINED}
        assert names["update_preimage"] == names["update_postimage"]
        if exact[version - 1]:
            recorded = [one for p, some in table.recorded[version].items() if p in shown for one in some]
            assert Counter(changes) == Counter(recorded)


edits = st.lists(
    st.tuples(
        st.sampled_from(["insert", "delete", "correct", "move"]), st.integers(0, 12), st.sampled_from(PARTITIONS)
    ),
    min_size=1,
    max_size=6,
)


def edited(rows: dict[int, tuple[str | None, int]], told: list[Any], next_: int, allowed: set[str]) -> Any:
    after = dict(rows)
    for number, (kind, at, p) in enumerate(told):
        if kind not in allowed:
            continue
        if kind == "insert":
            after[next_ + number] = (p, 0)
        elif (known := sorted(rows))[at % len(rows) :] and (name := known[at % len(rows)]) in after:
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
def test_whatever_a_commit_does_the_feed_leads_to_the_rows_that_are_seen(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], which: str, writer: str, *, delta: bool, is_view: bool
) -> None:
    table = Told(tmp_path_factory.mktemp("story"))
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
    for number, (kind, told) in enumerate(steps):
        after = edited(table.rows, told, 100 * (number + 1), allowed[kind]) if table.rows else {}
        updated = sum(after[name] != table.rows[name] for name in after.keys() & table.rows.keys())
        info: Action = {"operation": "MERGE" if kind in {"upsert", "refresh"} else kind}
        if info["operation"] == "MERGE":
            info["operationMetrics"] = {METRICS[writer]: str(updated) if writer == "spark" else updated}
        if kind == "refresh":
            info["userMetadata"] = REFRESH
        # By a mark alone, on a table that is no view, nobody says that no row has moved.
        exact.append(kind == "refresh" if is_view else kind in {"DELETE", "MERGE"})
        table.commit(after, info)
    feed = Feed(table.log.root, DELTA if delta else None, rights=rights_by(which), is_view=is_view)
    check(table, feed, FILTERS[which], exact=exact)


@formats
def test_two_rows_that_change_places_are_no_update(tmp_path: Path, capabilities: str | None) -> None:
    """Neither numbers of rows nor the kinds in the cdc files tell it from two rows that stay."""
    table = Told(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2), 3: ("a", 3)}, {"operation": "WRITE"})
    table.commit({1: ("b", 1), 2: ("a", 2), 3: ("a", 3)}, {"operation": "UPDATE", "userMetadata": REFRESH})
    changes = table.feed(Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), 2)
    assert {kind for kind, _ in changes} == {"delete", "insert"}
    check(table, Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), {"a"}, exact=[True, False])


@formats
@pytest.mark.parametrize("operation", ["WRITE", "STREAMING UPDATE", "delete", "", None, 7])
def test_an_operation_that_may_be_anything_is_told_by_its_files(
    tmp_path: Path, capabilities: str | None, operation: Any
) -> None:
    table = Told(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2)}, {"operation": "WRITE"})
    table.commit({1: ("b", 1), 2: ("a", 2)}, {"operation": operation})
    check(table, Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), {"a"}, exact=[True, False])


@formats
@pytest.mark.parametrize("mark", ["", '"view"', "[]", "{", "{}", None, 7, {"run": "view"}])
def test_a_commit_of_a_views_table_that_no_refresh_wrote_is_told_by_its_files(
    tmp_path: Path, capabilities: str | None, mark: Any
) -> None:
    table = Told(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2)}, {"operation": "WRITE"})
    table.commit({1: ("b", 1), 2: ("a", 2)}, {"operation": "MERGE", "userMetadata": mark})
    check(table, Feed(tmp_path, capabilities, rights=rights_by("p = 'a'"), is_view=True), {"a"}, exact=[True, False])


@formats
@pytest.mark.parametrize("values", [{}, None])
def test_a_cdc_file_that_names_no_partition_is_nobodys(
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
def test_under_other_metadata_partitions_may_be_others(tmp_path: Path, capabilities: str | None) -> None:
    table = Told(tmp_path)
    table.commit({1: ("a", 1), 2: ("b", 2)}, {"operation": "WRITE"})
    table.commit({}, {"operation": "DELETE"})
    first, last = table.log.commits[2][0], table.log.commits[2][1:]
    table.log.commits.pop()
    table.log.commit(first, metadata({**CDF, "more": "1"}), *last)
    changes = table.feed(Feed(tmp_path, capabilities, rights=rights_by("p = 'a'")), 2)
    assert changes == [("delete", (1, 1))]
