"""Test the lines of both formats against the protocol's examples and the requirements of clients."""

import hashlib
import json
from typing import Any

import pytest
from deltaic.errors import UnsupportedOperation
from deltaic.protocol import lines
from deltaic.protocol.capabilities import ResponseFormat
from deltaic.protocol.delta_lines import READER_PROPERTIES
from deltaic.protocol.lines import EndStreamAction
from deltaic.protocol.wire_actions import FileAction, WireDeletionVector, WireMetadata, file_id
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

BOTH = pytest.mark.parametrize("response_format", ["parquet", "delta"])
SCHEMA = (
    '{"type":"struct","fields":[{"name":"eventTime","type":"timestamp","nullable":true,"metadata":{}},'
    '{"name":"date","type":"date","nullable":true,"metadata":{}}]}'
)
TABLE = WireMetadata(
    id="f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2",
    schema_string=SCHEMA,
    partition_columns=["date"],
    configuration={"delta.enableChangeDataFeed": "true", "owner": "finance", "delta.logRetentionDuration": "1 day"},
    history_shared=True,
    size=123456,
    num_files=5,
)
STATS = (
    '{"numRecords":1,"minValues":{"eventTime":"2021-04-28T23:33:48.719Z"},'
    '"maxValues":{"eventTime":"2021-04-28T23:33:48.719Z"},"nullCount":{"eventTime":0}}'
)
FILE = FileAction(
    kind="file",
    url="https://bucket.s3.us-west-2.amazonaws.com/table2/date%3D2021-04-28/part-00000.parquet?X-Amz-Signature=dd5d",
    id="591723a8-6a27-4240-a90e-57426f4736d2",
    partition_values={"date": "2021-04-28"},
    size=573,
    stats=STATS,
    expiration=1652140800000,
    modification_time=1619652828000,
)
CHANGE = replace(FILE, version=1, timestamp=1652140800000, expiration=1652144400000)
VECTOR = WireDeletionVector("p", "https://bucket/dv.bin?X-Amz-Signature=aa", 38, 3, offset=1, file_id="dv-id")


def test_protocol_in_parquet_format() -> None:
    assert lines.protocol("parquet", {"minReaderVersion": 3}) == b'{"protocol":{"minReaderVersion":1}}\n'


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 2}, b'{"minReaderVersion":1,"minWriterVersion":2}'),
        ({"minReaderVersion": 2, "minWriterVersion": 5}, b'{"minReaderVersion":2,"minWriterVersion":5}'),
        (
            {"minReaderVersion": 2, "minWriterVersion": 5, "readerFeatures": None, "writerFeatures": []},
            b'{"minReaderVersion":2,"minWriterVersion":5}',
        ),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"],
            },
            (
                b'{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],'
                b'"writerFeatures":["deletionVectors"]}'
            ),
        ),
        (
            {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]},
            b'{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}',
        ),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["a"], "writerFeatures": ["b"]},
            b'{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["a"],"writerFeatures":["b","a"]}',
        ),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7},
            b'{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":[]}',
        ),
    ],
    ids=["1,2", "2,5", "2,5 with lists", "3,7", "1,7", "lists that disagree", "no lists"],
)
def test_protocol_in_delta_format(action: dict[str, Any], expected: bytes) -> None:
    assert lines.protocol("delta", action) == b'{"protocol":{"deltaProtocol":' + expected + b"}}\n"


def test_a_historical_protocol_has_its_version() -> None:
    line = lines.protocol("delta", {"minReaderVersion": 1, "minWriterVersion": 4}, version=2)
    assert line == b'{"protocol":{"deltaProtocol":{"minReaderVersion":1,"minWriterVersion":4},"version":2}}\n'


def test_metadata_in_parquet_format_equals_the_protocols_example() -> None:
    assert json.loads(lines.metadata("parquet", TABLE)) == {
        "metaData": {
            "partitionColumns": ["date"],
            "format": {"provider": "parquet"},
            "schemaString": SCHEMA,
            "id": "f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2",
            "configuration": {"enableChangeDataFeed": "true"},
            "size": 123456,
            "numFiles": 5,
        }
    }


@pytest.mark.parametrize(
    ("configuration", "history_shared"),
    [
        ({"delta.enableChangeDataFeed": "true"}, False),
        ({"delta.enableChangeDataFeed": "false"}, True),
        ({"enableChangeDataFeed": "true"}, True),
        ({}, True),
    ],
    ids=["history not shared", "off", "a user's property", "none"],
)
def test_parquet_format_announces_the_change_feed_only_if_it_is_shared(
    configuration: dict[str, str], history_shared: bool
) -> None:
    table = replace(TABLE, configuration=configuration, history_shared=history_shared)
    assert json.loads(lines.metadata("parquet", table))["metaData"]["configuration"] == {}


def test_metadata_in_parquet_format_with_everything_set() -> None:
    table = replace(
        TABLE,
        name="events",
        description='with "quotes" and \u2028',
        schema_string="{}",
        partition_columns=[],
        configuration={"delta.enablechangedatafeed": "TRUE"},
        version=0,
        size=0,
        num_files=0,
        location="s3://bucket/table",
        auxiliary_locations=["s3://other/table"],
        access_modes=["url", "dir"],
    )
    assert lines.metadata("parquet", table) == (
        b'{"metaData":{"id":"f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2","name":"events",'
        b'"description":"with \\"quotes\\" and \\u2028","format":{"provider":"parquet"},"schemaString":"{}",'
        b'"partitionColumns":[],"configuration":{"enableChangeDataFeed":"true"},"version":0,"size":0,"numFiles":0,'
        b'"location":"s3://bucket/table","auxiliaryLocations":["s3://other/table"],"accessModes":["url","dir"]}}\n'
    )


def test_metadata_in_delta_format_equals_the_protocols_example() -> None:
    table = replace(TABLE, version=20, raw={"format": {"provider": "parquet"}})
    assert json.loads(lines.metadata("delta", table)) == {
        "metaData": {
            "version": 20,
            "size": 123456,
            "numFiles": 5,
            "deltaMetadata": {
                "partitionColumns": ["date"],
                "format": {"provider": "parquet"},
                "schemaString": SCHEMA,
                "id": "f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2",
                "configuration": {"delta.enableChangeDataFeed": "true"},
            },
        }
    }


def test_delta_metadata_equals_the_log_without_private_properties() -> None:
    configuration = {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "2",
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id",
        "delta.enableInCommitTimestamps": "true",
        "delta.constraints.positive": "salary > 0",
        "delta.checkpointPolicy": "v2",
        "team.secret": "x",
    }
    raw = {
        "id": "m",
        "name": "logged",
        "description": None,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["date"],
        "configuration": configuration,
        "createdTime": 1651272616000,
        "unheardOf": {"a": 1},
    }
    table = replace(TABLE, id="m", name="logged", configuration=configuration, raw=raw)
    assert json.loads(lines.metadata("delta", table))["metaData"]["deltaMetadata"] == {
        "id": "m",
        "name": "logged",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": ["date"],
        "configuration": {name: configuration[name] for name in list(configuration)[:5]},
        "createdTime": 1651272616000,
    }
    assert all(name.startswith("delta.") and name == name.lower() for name in READER_PROPERTIES)


@BOTH
def test_the_schema_is_the_same_text_on_every_line(response_format: ResponseFormat) -> None:
    odd = '{"type" : "struct",\n "fields":[ ] , "x":"\u00fc\u2028\\u0041"}'
    content = json.loads(lines.metadata(response_format, replace(TABLE, schema_string=odd)))["metaData"]
    assert content.get("deltaMetadata", content)["schemaString"] == odd


def test_files_in_parquet_format_equal_the_protocols_examples() -> None:
    common = {
        "url": FILE.url,
        "id": "591723a8-6a27-4240-a90e-57426f4736d2",
        "size": 573,
        "partitionValues": {"date": "2021-04-28"},
    }
    change = {**common, "timestamp": 1652140800000, "version": 1, "expirationTimestamp": 1652144400000}
    expected = {
        "file": {**common, "stats": STATS, "expirationTimestamp": 1652140800000},
        "add": {**change, "stats": STATS},
        "cdf": change,
        "remove": change,
    }
    for action in (FILE, replace(CHANGE, kind="add"), replace(CHANGE, kind="cdf"), replace(CHANGE, kind="remove")):
        line = lines.file("parquet", action)
        assert json.loads(line) == {action.kind: expected[action.kind]}
        assert line.startswith(b'{"' + action.kind.encode() + b'":{')


def test_a_file_in_parquet_format_byte_for_byte() -> None:
    action = FileAction("file", "https://h/p?a=1&b=\u00fc", "i", {"a": "\u2028'\"\\", "b": None, "c": ""}, 1, version=0)
    assert lines.file("parquet", action) == (
        b'{"file":{"url":"https://h/p?a=1&b=\\u00fc","id":"i",'
        b'"partitionValues":{"a":"\\u2028\'\\"\\\\","b":null,"c":""},"size":1,"version":0}}\n'
    )


def test_a_file_in_delta_format_byte_for_byte() -> None:
    action = replace(FILE, url="https://h/p", stats="{}", version=3, timestamp=4, deletion_vector=VECTOR)
    assert lines.file("delta", action) == (
        b'{"file":{"id":"591723a8-6a27-4240-a90e-57426f4736d2","deletionVectorFileId":"dv-id","version":3,'
        b'"timestamp":4,"expirationTimestamp":1652140800000,"deltaSingleAction":{"add":{"path":"https://h/p",'
        b'"partitionValues":{"date":"2021-04-28"},"size":573,"modificationTime":1619652828000,"dataChange":true,'
        b'"stats":"{}","deletionVector":{"storageType":"p",'
        b'"pathOrInlineDv":"https://bucket/dv.bin?X-Amz-Signature=aa","offset":1,"sizeInBytes":38,"cardinality":3}}}}}\n'
    )


def test_an_inline_deletion_vector_is_unchanged() -> None:
    vector = WireDeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)
    wrapper = json.loads(lines.file("delta", replace(FILE, deletion_vector=vector)))["file"]
    assert "deletionVectorFileId" not in wrapper
    assert wrapper["deltaSingleAction"]["add"]["deletionVector"] == {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }


def test_changes_in_delta_format_are_delta_actions() -> None:
    def single(action: FileAction) -> dict[str, Any]:
        wrapper = json.loads(lines.file("delta", action))["file"]
        assert (wrapper["version"], wrapper["timestamp"]) == (1, 1652140800000)
        content: dict[str, Any] = wrapper["deltaSingleAction"]
        return content

    common = {"path": FILE.url, "partitionValues": {"date": "2021-04-28"}, "size": 573}
    tracked = replace(CHANGE, kind="add", base_row_id=0, default_row_commit_version=1)
    assert single(tracked) == {
        "add": {
            **common,
            "modificationTime": 1619652828000,
            "dataChange": True,
            "stats": STATS,
            "baseRowId": 0,
            "defaultRowCommitVersion": 1,
        }
    }
    assert single(replace(CHANGE, kind="cdf")) == {"cdc": {**common, "dataChange": False}}
    assert single(replace(CHANGE, kind="remove")) == {
        "remove": {
            **common,
            "deletionTimestamp": 1619652828000,
            "extendedFileMetadata": True,
            "dataChange": True,
        }
    }


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (EndStreamAction(), b"{}"),
        (EndStreamAction(min_url_expiration_timestamp=1652140800000), b'{"minUrlExpirationTimestamp":1652140800000}'),
        (
            EndStreamAction("r", "n", 5, "it broke", 503),
            (
                b'{"refreshToken":"r","nextPageToken":"n","minUrlExpirationTimestamp":5,"errorMessage":"it broke",'
                b'"httpStatusErrorCode":503}'
            ),
        ),
    ],
    ids=["nothing", "expiry", "all"],
)
def test_the_end_stream_action(end: EndStreamAction, expected: bytes) -> None:
    assert lines.end_stream_action(end) == b'{"endStreamAction":' + expected + b"}\n"


def test_the_status_of_a_query() -> None:
    assert lines.query_status("q1") == b'{"queryStatus":{"queryId":"q1","status":"pending"}}\n'


def test_file_ids_equal_those_of_the_reference() -> None:
    path = "date=2021-04-28/part-00000-8b0086f2-7b27-4935-ac5a-8ed6215a6640.c000.snappy.parquet"
    assert file_id(path, "parquet") == "9f1a49539c5cffe1ea7f9e055d5c003c"
    assert file_id(path, "delta") == hashlib.sha256(path.encode()).hexdigest()
    assert file_id("c=x%2520y", "parquet") != file_id("c=x%20y", "parquet")
    assert len(file_id("\ud800", "parquet")) == 32


ANYTHING = st.text()
ACTIONS = st.builds(
    FileAction,
    kind=st.sampled_from(["file", "add", "cdf", "remove"]),
    url=ANYTHING,
    id=ANYTHING,
    partition_values=st.dictionaries(ANYTHING, st.none() | ANYTHING, max_size=3),
    size=st.integers(0, 2**63 - 1),
    stats=st.none() | ANYTHING,
    version=st.none() | st.integers(0, 2**63 - 1),
    deletion_vector=st.none() | st.just(VECTOR),
)


@BOTH
@given(action=ACTIONS)
def test_every_line_is_one_line_of_ascii_json_however_it_is_split(
    response_format: ResponseFormat, action: FileAction
) -> None:
    if response_format == "parquet" and action.deletion_vector is not None:
        with pytest.raises(UnsupportedOperation, match="deletion vector"):
            lines.file(response_format, action)
        return
    line = lines.file(response_format, action)
    text = line.decode("ascii")
    assert len(text.splitlines()) == 1
    assert text.endswith("\n")
    [(wrapper, content)] = json.loads(text).items()
    assert wrapper == (action.kind if response_format == "parquet" else "file")
    assert content["id"] == action.id
    fields = content if response_format == "parquet" else next(iter(content["deltaSingleAction"].values()))
    assert fields["partitionValues"] == action.partition_values
    assert fields["size"] == action.size
    assert None not in [*content.values(), *fields.values()]
