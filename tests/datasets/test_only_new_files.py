"""Test checks of dataset files with only_new or a watermark."""

from datetime import date, datetime
from typing import Any

import pytest
import yaml
from datasets.files import dataset
from deltaic.errors import InvalidParameter
from deltaic_datasets.file.dataset_model import json_schema
from deltaic_datasets.file.file_checks import check, dataset_of
from deltaic_datasets.run.time_steps import backfill_of
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

DATABASE = {"format": "jdbc", "url": "jdbc:postgresql://host/db", "table": "visits"}
FILES = {"format": "csv", "paths": ["s3://inbox/*.csv"], "schema": "id INT", "only_new": True}
MERGE = {"mode": "merge", "keys": ["id"]}


def marked(**mark: Any) -> dict[str, Any]:
    return {**DATABASE, "watermark": {"column": "at", **mark}}


def content(sources: dict[str, Any], **parts: Any) -> dict[str, Any]:
    steps = [{"view": "all_of_them", "sql": "SELECT 1 AS id"}] if len(sources) > 1 else None
    return dataset("s3://lake/visits", sources=sources, **{"steps": steps, **parts})


RIGHT = {
    "a mark": (marked(), {}),
    "a moment": (marked(start=datetime(2026, 1, 1, 6, 30), overlap="2 hours"), {"write": MERGE}),  # noqa: DTZ001 -- YAML's
    "a day": (marked(start=date(2026, 1, 1), overlap="1 day"), {"write": {**MERGE, "mode": "scd2"}}),
    "a number": (marked(start=-5, overlap=10), {"write": MERGE}),
    "a decimal": (marked(start=0.5, overlap=0.25), {"write": MERGE}),
    "a query": (
        {
            **DATABASE,
            "table": None,
            "query": "SELECT * FROM v WHERE at < {{ run_date }}",
            "watermark": {"column": "at"},
        },
        {},
    ),
    "files": (FILES, {}),
    "files by key": (FILES, {"write": MERGE}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_correct_file_matches_the_json_schema(name: str) -> None:
    source, parts = RIGHT[name]
    source = {field: value for field, value in source.items() if value is not None}
    dataset_content = content({"s": source}, **parts)
    assert check(yaml.safe_dump(dataset_content)).findings == []
    Draft202012Validator.check_schema(json_schema())
    fields = json_schema()["$defs"]
    assert set(source.get("watermark", {})) <= set(fields["Watermark"]["properties"])
    assert set(source) <= set(fields[{"csv": "FileSource"}.get(source["format"], "JdbcSource")]["properties"])


def lines_of(dataset_content: dict[str, Any]) -> dict[str, str]:
    text = yaml.safe_dump(dataset_content, sort_keys=False)
    return {f"{mistakes.line}:{mistakes.field}": mistakes.message for mistakes in check(text).mistakes}


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "no column": (marked(column=""), {}, "sources.s.watermark.column", "is empty"),
    "unknown field": (marked(begin=1), {}, "sources.s.watermark.begin", "is not a field here"),
    "text": (marked(start="then"), {}, "sources.s.watermark.start", "write a date"),
    "no duration": (marked(overlap="long"), {"write": MERGE}, "sources.s.watermark.overlap", "write a whole number"),
    "negative": (marked(overlap=-1), {"write": MERGE}, "sources.s.watermark.overlap", "a number above 0"),
    "infinite": (marked(start=float("inf")), {}, "sources.s.watermark.start", "write a date"),
    "kinds": (marked(start=1, overlap="1 day"), {"write": MERGE}, "sources.s.watermark.overlap", "must be a number if"),
    "append": (
        marked(overlap="1 day"),
        {},
        "sources.s.watermark.overlap",
        "append would add twice: use mode merge or scd2",
    ),
    "overwrite": (
        marked(),
        {"write": {"mode": "overwrite"}},
        "sources.s.watermark",
        "which mode overwrite would replace all others with",
    ),
    "partitions": (
        marked(),
        {"write": {"mode": "overwrite_partitions", "where": "true"}},
        "sources.s.watermark",
        "which mode overwrite_partitions would replace all others with",
    ),
    "forgotten": (
        marked(),
        {"target": {"properties": {"delta.setTransactionRetentionDuration": "interval 1 day"}}},
        "target.properties.delta.setTransactionRetentionDuration",
        "forget how far 's' was read",
    ),
    "variable": (
        {**DATABASE, "table": None, "query": "SELECT * FROM v WHERE site = {{site}}", "watermark": {"column": "at"}},
        {"variables": {"site": {"type": "integer", "default": 1}}},
        "sources.s.query",
        "would miss rows below the watermark for another 'site'",
    ),
    "files overwritten": (FILES, {"write": {"mode": "overwrite"}}, "sources.s.only_new", "which mode overwrite would"),
    "files without a schema": (
        {**FILES, "schema": None},
        {},
        "sources.s.schema",
        "is required for a source of a stream",
    ),
    "files of two globs": ({**FILES, "paths": ["a/*", "b/*"]}, {}, "sources.s.paths", "give a glob"),
    "files twice": (
        FILES,
        {"stream": {"source": "s", "checkpoint": "s3://lake/c"}},
        "sources.s.only_new",
        "does the same as `stream`",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistake_is_reported_with_its_line(name: str) -> None:
    source, parts, field, message = WRONG[name]
    source = {name: value for name, value in source.items() if value is not None}
    mistakes = lines_of(content({"s": source}, **parts))
    assert {position.partition(":")[2] for position in mistakes} == {field}, mistakes
    position, actual = next(iter(mistakes.items()))
    assert message in actual
    text = yaml.safe_dump(content({"s": source}, **parts), sort_keys=False).splitlines()
    last = field.rpartition(".")[2] if "delta." not in field else "delta.setTransactionRetentionDuration"
    line = text[int(position.partition(":")[0]) - 1]
    assert line.strip().startswith((f"{last}:", "s:")), line


@pytest.mark.parametrize(("source", "field"), [(FILES, "only_new"), (marked(), "watermark")])
def test_delete_missing_is_refused_for_new_rows(source: dict[str, Any], field: str) -> None:
    mistakes = lines_of(content({"s": source}, write={**MERGE, "delete_missing": True}))
    messages = {position.partition(":")[2]: message for position, message in mistakes.items()}
    assert "write.delete_missing would delete all other keys" in messages[f"sources.s.{field}"]


def test_only_new_and_watermark_cannot_be_combined() -> None:
    both = lines_of(content({"files": FILES, "rows": marked()}))
    assert [message for message in both.values() if "declare a separate dataset for each" in message]
    two = lines_of(content({"one": FILES, "two": FILES}))
    assert "works for one source of a dataset, here 'one': use a separate dataset" in two.values()
    assert lines_of(content({"rows": marked(), "others": marked()})) == {}


def test_only_new_uses_a_checkpoint_next_to_the_target() -> None:
    mistakes, _ = dataset_of(yaml.safe_dump(content({"s": FILES})), "visits.yaml")
    assert mistakes.stream is not None
    assert mistakes.stream.source == "s"
    assert mistakes.stream.checkpoint == "s3://lake/visits_checkpoint/tried"
    assert dataset_of(yaml.safe_dump(content({"s": {**FILES, "only_new": False}})), "v.yaml")[0].stream is None


@pytest.mark.parametrize("source", [FILES, marked()])
def test_backfill_of_new_rows_is_refused(source: dict[str, Any]) -> None:
    text = yaml.safe_dump(content({"s": source}, variables={"day": {"type": "date"}}))
    with pytest.raises(InvalidParameter, match=r"v.yaml has a (stream|watermark), .*a backfill cannot"):
        backfill_of(text, "v.yaml", {}, first="2026-01-01", last="2026-01-02", unit="day")


@given(
    st.fixed_dictionaries(
        {"column": st.sampled_from(["at", "", 3, None])},
        optional={
            "start": st.sampled_from([1, 1.5, True, "x", [], date(2026, 1, 1), datetime(2026, 1, 1), None]),  # noqa: DTZ001
            "overlap": st.sampled_from([1, 0, 0.5, True, "1 day", "0 days", {}, None]),
        },
    ),
    st.sampled_from(["append", "merge", "overwrite"]),
)
def test_any_watermark_is_accepted_or_reported(mark: dict[str, Any], mode: str) -> None:
    write = {"mode": mode, **({"keys": ["id"]} if mode == "merge" else {})}
    checked = check(yaml.safe_dump(content({"s": {**DATABASE, "watermark": mark}}, write=write)))
    assert (checked.dataset is None) == bool(checked.mistakes)
    assert all(mistakes.line > 1 and mistakes.field for mistakes in checked.mistakes)
