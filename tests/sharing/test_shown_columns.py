"""Tables with a hidden column: answers name only the columns that are shown, however a writer spells the others."""

import json
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove
from sharing.means import Feed, lines
from sharing.test_row_filters import CDF, DELTA, actions, formats, rights, schema

VALUES = ({"REGION": "canary"}, {"Region": "canary", "day": "1"}, {"region": "canary", "day": "1", "other": "canary"})
"""What writers put into a log whose schema says `region` and `day`: Delta's names are case-insensitive."""


def spelled(root: Path) -> None:
    log = HandmadeLog(root)
    log.commit(
        protocol(),
        metadata(CDF, schema(("region", {}), ("day", {}), ("x", {})), ("region", "day")),
    )
    stats = {"numRecords": 1, "minValues": {"REGION": "canary", "x": "a", "other": "canary"}}
    files: list[dict[str, Any]] = [{"partitionValues": values, "stats": json.dumps(stats)} for values in VALUES]
    log.commit(*(add(f"f{at}", **file) for at, file in enumerate(files)))
    gone: dict[str, Any] = {"partitionValues": VALUES[0], "size": 1, "extendedFileMetadata": True}
    log.commit(
        remove("f0", **gone), {"cdc": {"path": "c", "partitionValues": VALUES[1], "size": 1, "dataChange": False}}
    )


@formats
def test_a_hidden_column_under_a_key_in_another_case_is_not_shown(tmp_path: Path, capabilities: str | None) -> None:
    spelled(tmp_path)
    asked = Feed(tmp_path, capabilities, rights=rights(hidden=["region"]))
    answers = [asked.query(), asked.query(version=1), asked.answer(1, 2), asked.answer(1, 2, feed=False)]
    for answer in answers:
        found = lines(answer)
        assert "canary" not in json.dumps(found)
        assert actions(found)
        for kind, action in actions(found):
            assert action["partitionValues"].keys() <= {"day"}
            if "stats" in action and kind != "remove":
                assert json.loads(action["stats"]) == {"numRecords": 1, "minValues": {"x": "a"}}


def test_visible_partition_values_stay_as_the_log_has_them(tmp_path: Path) -> None:
    spelled(tmp_path)
    found = actions(lines(Feed(tmp_path, DELTA, rights=rights(hidden=["region"])).query(version=1)))
    assert [action["partitionValues"] for _, action in found] == [{}, {"day": "1"}, {"day": "1"}]
    whole = actions(lines(Feed(tmp_path, DELTA).query(version=1)))
    assert [action["partitionValues"] for _, action in whole] == list(VALUES)


@pytest.mark.parametrize(
    "mode", [{}, {"delta.columnMapping.mode": "name"}], ids=["mapping that was switched off", "mapping"]
)
def test_neither_name_of_a_hidden_column_is_shown(tmp_path: Path, mode: dict[str, str]) -> None:
    """Whatever the table says of column mapping, keys may be logical or physical names."""
    physical = "delta.columnMapping.physicalName"
    log = HandmadeLog(tmp_path)
    columns = schema(("region", {physical: "c1"}), ("c1", {physical: "c2"}))
    log.commit(protocol(2, 5), metadata(CDF | mode, columns, ("region", "c1")))
    log.commit(add("f", partitionValues={"region": "canary", "c1": "canary", "c2": "a"}))
    found = lines(Feed(tmp_path, DELTA, rights=rights(hidden=["region"])).query())
    assert [action["partitionValues"] for _, action in actions(found)] == [{"c2": "a"}]
