"""Test that the published Python client gets exactly the rows that the recipient may see.

deltalake writes the tables, with change data; pandas filters all rows for the expected result.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import delta_sharing
import deltalake
import pandas as pd
import pyarrow as pa
import pytest
from client.provider import Provider
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries

SITES = ["berlin", "Berlin", "paris", None]
DAYS = [20_089, 20_090, 20_454]
FILTERS: list[tuple[str, dict[str, str], Callable[[pd.Series], bool]]] = [
    ("site = current_recipient('site')", {"site": "berlin"}, lambda row: row["site"] == "berlin"),
    ("site <> current_recipient('site')", {"site": "berlin"}, lambda row: row["site"] in {"Berlin", "paris"}),
    ("site IS NULL OR site LIKE 'B%'", {}, lambda row: row["site"] in {None, "Berlin"}),
    (
        "NOT (site IN current_recipient('sites'))",
        {"sites": '["paris", "oslo"]'},
        lambda row: row["site"] in {"berlin", "Berlin"},
    ),
    (
        "day BETWEEN '2025-01-02' AND current_recipient('until')",
        {"until": "2025-12-31"},
        lambda row: 20_090 <= row["day"] < 20_454,
    ),
    ("day < DATE '2026-01-01' OR site = current_recipient('site')", {}, lambda _: False),
]

step = st.one_of(
    st.tuples(
        st.just("append"), st.lists(st.tuples(st.sampled_from(SITES), st.sampled_from(DAYS)), min_size=1, max_size=4)
    ),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("move"), st.integers(0, 9), st.sampled_from(["berlin", "paris"])),
    st.tuples(st.just("move"), st.integers(0, 4), st.sampled_from(["Berlin", "paris"])),
    st.tuples(st.just("correct"), st.integers(0, 9)),
)


class TableHistory:
    """Table in a folder, with all its rows in every version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        schema = pa.schema([("id", pa.int64()), ("note", pa.string()), ("site", pa.string()), ("day", pa.date32())])
        self.schema, self.next = schema, 0
        deltalake.DeltaTable.create(
            str(folder),
            schema,  # type: ignore[arg-type]  # our stubs of pyarrow do not name Arrow's interface
            partition_by=["site", "day"],
            configuration={"delta.enableChangeDataFeed": "true"},
        )
        self.states: list[pd.DataFrame] = [self.rows()]

    def rows(self) -> pd.DataFrame:
        rows = deltalake.DeltaTable(str(self.folder)).to_pyarrow_table().cast(self.schema)
        return rows.set_column(3, "day", rows["day"].cast(pa.int32())).to_pandas().sort_values("id")

    def apply_step(self, kind: str, *arguments: Any) -> None:
        table = deltalake.DeltaTable(str(self.folder))
        before = table.version()
        if kind == "append":
            rows = [(self.next + at, f"n{self.next + at}", *partition) for at, partition in enumerate(arguments[0])]
            self.next += len(rows)
            columns = [
                pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), self.schema, strict=True)
            ]
            deltalake.write_deltalake(str(self.folder), pa.table(columns, schema=self.schema), mode="append")
        elif kind == "delete":
            table.delete(f"id % 10 = {arguments[0]}")
        elif kind == "move":
            table.update(new_values={"site": arguments[1]}, predicate=f"id % 10 = {arguments[0]}")
        else:
            table.update(updates={"note": "note || '!'"}, predicate=f"id % 10 = {arguments[0]}")
        for _ in range(deltalake.DeltaTable(str(self.folder)).version() - before):
            self.states.append(self.rows())


def arguments(frame: pd.DataFrame) -> list[tuple[int, str, str | None]]:
    rows = frame[["id", "note", "site"]].itertuples(index=False)
    return sorted((int(row.id), str(row.note), None if pd.isna(row.site) else str(row.site)) for row in rows)


@pytest.mark.slow
# The garbage collector removes the client's folder with its Delta log.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@settings(max_examples=tries(12), deadline=None)
@given(steps=st.lists(step, min_size=1, max_size=5), filter_index=st.integers(0, len(FILTERS) - 1), delta=st.booleans())
def test_a_recipient_gets_its_rows_and_no_others(
    provider: Provider, tmp_path_factory: pytest.TempPathFactory, steps: list[Any], filter_index: int, *, delta: bool
) -> None:
    text, properties, is_visible = FILTERS[filter_index]
    table = TableHistory(tmp_path_factory.mktemp("narrowed"))
    table.apply_step("append", [(site, day) for site in SITES for day in DAYS])
    for action in steps:
        table.apply_step(*action)
    name = f"narrowed_{uuid4().hex}"
    properties_before = provider.admin.recipients.get("reader").properties
    provider.admin.recipients.update("reader", add_properties=properties, remove_properties=tuple(properties_before))
    url = provider.put(name, table.folder, history=True, partition_filter=text)
    visible_rows = [
        arguments(state[state.apply(is_visible, axis=1)] if len(state) else state) for state in table.states
    ]
    for version, expected in enumerate(visible_rows):
        assert arguments(delta_sharing.load_as_pandas(url, version=version, use_delta_format=delta)) == expected
    assert arguments(delta_sharing.load_as_pandas(url, use_delta_format=delta)) == visible_rows[-1]
    feed = delta_sharing.load_table_changes_as_pandas(url, starting_version=0, use_delta_format=delta)
    state: list[tuple[int, str, str | None]] = []
    for version, expected in enumerate(visible_rows):
        changes = feed[feed["_commit_version"] == version]
        for removed_row in arguments(changes[changes["_change_type"].isin(["delete", "update_preimage"])]):
            state.remove(removed_row)
        state += arguments(changes[changes["_change_type"].isin(["insert", "update_postimage"])])
        assert sorted(state, key=str) == sorted(expected, key=str)
        # Each preimage of an update has a postimage.
        kinds = changes["_change_type"].value_counts()
        assert kinds.get("update_preimage", 0) == kinds.get("update_postimage", 0)
