"""Tables with an invalid schemaString are refused for all recipients and requests, with a message about the log."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol
from deltaic.delta.actions import parse_metadata
from deltaic.delta.schema_string import nested_parts, read_schema
from deltaic.errors import DeltaicError, TableUnreadable
from deltaic.iceberg.table_schema import iceberg_schema
from deltaic.sharing.rights.table_rights import ALL, Rights
from deltaic.sharing.rights.table_visibility import visibility_of
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from sharing.means import Feed
from sharing.test_row_filters import CDF, rights

GOOD: dict[str, Any] = {"name": "p", "type": "string", "nullable": True, "metadata": {}}
INVALID = {
    "no JSON": "{",
    "empty": "",
    "a number": "5",
    "null": "null",
    "a text": '"struct"',
    "a list": "[]",
    "an empty object": "{}",
    "another type": '{"type":"array","elementType":"string","containsNull":true}',
    "no columns": '{"type":"struct"}',
    "columns that are no list": '{"type":"struct","fields":{"p":"string"}}',
    "a column that is no object": '{"type":"struct","fields":["p"]}',
    "a column without a name": '{"type":"struct","fields":[{"type":"string"}]}',
    "a name that is no text": '{"type":"struct","fields":[{"name":5,"type":"string"}]}',
    "a column without a type": '{"type":"struct","fields":[{"name":"p"}]}',
    "a type that is a number": '{"type":"struct","fields":[{"name":"p","type":5}]}',
    "metadata that is a text": '{"type":"struct","fields":[{"name":"p","type":"string","metadata":"x"}]}',
    "a broken column below": json.dumps(
        {"type": "struct", "fields": [GOOD, GOOD | {"name": "s", "type": {"type": "struct", "fields": [7]}}]}
    ),
    "columns below that are a number": json.dumps(
        {"type": "struct", "fields": [GOOD, GOOD | {"name": "s", "type": {"type": "struct", "fields": 7}}]}
    ),
    "an element that is a list": json.dumps(
        {"type": "struct", "fields": [GOOD, GOOD | {"name": "s", "type": {"type": "array", "elementType": []}}]}
    ),
    "too deep": '{"type":"struct","fields":' + "[" * 100_000,
}
RECIPIENTS = {"all": ALL, "a filter": rights("p = 'a'"), "a hidden column": rights(hidden=["p"])}


@pytest.mark.parametrize("recipient_rights", RECIPIENTS.values(), ids=RECIPIENTS)
@pytest.mark.parametrize("schema_string", INVALID.values(), ids=INVALID)
def test_every_request_refuses_an_invalid_schema_and_names_the_log(
    tmp_path: Path, schema_string: str, recipient_rights: Rights
) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(CDF, schema_string or " "), add("f"))
    log.commit(add("g"))
    client = Feed(tmp_path, rights=recipient_rights)
    requests: list[Callable[[], object]] = [
        lambda: list(client.query().chunks),
        lambda: list(client.query(predicateHints=["p = 'a'"]).chunks),
        lambda: list(client.answer(0, 1).chunks),
        lambda: list(client.answer(1, 1, feed=False).chunks),
        lambda: iceberg_schema(visibility_of(recipient_rights, client.log.snapshot().metadata).metadata),
    ]
    for request in requests:
        with pytest.raises(TableUnreadable, match=r"the table's log cannot be read: .*schemaString"):
            request()


@settings(deadline=None, max_examples=tries(100))
@given(st.data())
def test_any_json_is_read_as_a_schema_or_refused(data: st.DataObject) -> None:
    values: Any = st.recursive(
        st.none() | st.integers() | st.sampled_from(["struct", "string", "p"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["type", "fields", "name", "metadata", "elementType", "sqlType"]), inner)
        ),
        max_leaves=12,
    )
    fields = data.draw(st.lists(values | st.just(GOOD), max_size=2))
    text = json.dumps(data.draw(values | st.just({"type": "struct", "fields": fields})))
    try:
        schema = read_schema(text)
    except TableUnreadable:
        return
    assert all(isinstance(part, dict) for part in nested_parts(schema))
    names = {field["name"].lower() for field in schema["fields"]}
    table = metadata(CDF, text, tuple(names))["metaData"]
    with suppress(DeltaicError):  # other mistakes have other errors
        visibility_of(rights("p = 'a'"), parse_metadata(table, "here"))
    with suppress(DeltaicError):
        iceberg_schema(parse_metadata(table, "here"))
    visibility_of(Rights(hidden=frozenset(names)), parse_metadata(table, "here"))
