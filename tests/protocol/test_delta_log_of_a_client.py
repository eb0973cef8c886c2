"""Test with another Delta library that a delta-format client can write a valid log from the lines."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltaic.protocol import lines
from deltaic.protocol.wire_actions import FileAction, WireMetadata
from deltalake import DeltaTable

TABLE = WireMetadata(
    id="f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2",
    schema_string='{"type":"struct","fields":[{"name":"day","type":"date","nullable":true,"metadata":{}}]}',
    partition_columns=["day"],
    configuration={"delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"},
    size=10,
    num_files=1,
)
FILE = FileAction(
    kind="add",
    url="https://h/p.parquet?X-Amz-Signature=a",
    id="0" * 64,
    partition_values={"day": "2021-04-28"},
    size=10,
    stats='{"numRecords":3}',
    version=0,
    timestamp=1,
    base_row_id=0,
    default_row_commit_version=0,
)
V2 = ["v2Checkpoint", "vacuumProtocolCheck"]


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 4},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["changeDataFeed", "inCommitTimestamp"]},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"], "writerFeatures": []},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": V2, "writerFeatures": [*V2, "rowTracking"]},
    ],
    ids=["1,4", "writer features", "lists that disagree", "log only"],
)
def test_a_delta_library_opens_the_clients_log(protocol: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    actions = [
        {"protocol": json.loads(lines.protocol("delta", protocol))["protocol"]["deltaProtocol"]},
        {"metaData": json.loads(lines.metadata("delta", TABLE))["metaData"]["deltaMetadata"]},
        json.loads(lines.file("delta", FILE))["file"]["deltaSingleAction"],
    ]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    table = DeltaTable(str(tmp_path))
    assert str(table.metadata().id) == TABLE.id
    assert table.metadata().partition_columns == ["day"]
    assert table.protocol().min_reader_version == protocol["minReaderVersion"]
    assert len(table.file_uris()) == 1
