"""Answers never name hidden columns, however a writer spells them."""

import json
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove
from sharing.means import Feed, lines
from sharing.test_row_filters import CDF, DELTA, actions, formats, rights, schema

VALUES = ({"REGION": "canary"}, {"Region": "canary", "day": "1"}, {"region": "canary", "day": "1", "other": "canary"})
"""Partition values in a log with columns `region` and `day`: names in Delta are case-insensitive."""


def write_spellings(root: Path) -> None:
    log = HandmadeLog(root)
    log.commit(
        protocol(),
        metadata(CDF, schema(("region", {}), ("day", {}), ("x", {})), ("region", "day")),
    )
    stats = {"numRecords": 1, "minValues": {"REGION": "canary", "x": "a", "other": "canary"}}
    files: list[dict[str, Any]] = [{"partitionValues": values, "stats": json.dumps(stats)} for values in VALUES]
    log.commit(*(add(f"f{at}", **file) for at, file in enumerate(files)))
    removed: dict[str, Any] = {"partitionValues": VALUES[0], "size": 1, "extendedFileMetadata": True}
    log.commit(
        remove("f0", **removed), {"cdc": {"path": "c", "partitionValues": VALUES[1], "size": 1, "dataChange": False}}
    )


@formats
def test_hidden_column_in_another_case_is_not_shown(tmp_path: Path, capabilities: str | None) -> None:
    write_spellings(tmp_path)
    client = Feed(tmp_path, capabilities, rights=rights(hidden=["region"]))
    answers = [client.query(), client.query(version=1), client.answer(1, 2), client.answer(1, 2, feed=False)]
    for answer in answers:
        answer_lines = lines(answer)
        assert "canary" not in json.dumps(answer_lines)
        assert actions(answer_lines)
        for kind, action in actions(answer_lines):
            assert action["partitionValues"].keys() <= {"day"}
            if "stats" in action and kind != "remove":
                assert json.loads(action["stats"]) == {"numRecords": 1, "minValues": {"x": "a"}}


def test_visible_partition_values_are_unchanged(tmp_path: Path) -> None:
    write_spellings(tmp_path)
    filtered = actions(lines(Feed(tmp_path, DELTA, rights=rights(hidden=["region"])).query(version=1)))
    assert [action["partitionValues"] for _, action in filtered] == [{}, {"day": "1"}, {"day": "1"}]
    unfiltered = actions(lines(Feed(tmp_path, DELTA).query(version=1)))
    assert [action["partitionValues"] for _, action in unfiltered] == list(VALUES)


@pytest.mark.parametrize(
    "mode", [{}, {"delta.columnMapping.mode": "name"}], ids=["mapping that was switched off", "mapping"]
)
def test_neither_name_of_a_hidden_column_is_shown(tmp_path: Path, mode: dict[str, str]) -> None:
    """Keys can be logical or physical names, with or without column mapping."""
    physical = "delta.columnMapping.physicalName"
    log = HandmadeLog(tmp_path)
    columns = schema(("region", {physical: "c1"}), ("c1", {physical: "c2"}))
    log.commit(protocol(2, 5), metadata(CDF | mode, columns, ("region", "c1")))
    log.commit(add("f", partitionValues={"region": "canary", "c1": "canary", "c2": "a"}))
    answer_lines = lines(Feed(tmp_path, DELTA, rights=rights(hidden=["region"])).query())
    assert [action["partitionValues"] for _, action in actions(answer_lines)] == [{"c2": "a"}]
