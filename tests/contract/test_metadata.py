"""Query Table Metadata: protocol and metaData, at the latest version, a version or a time, in both formats."""

import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from contract.logs import column, delta_schema
from contract.recipient import CAPABILITIES, NDJSON, Line, Reply, Table
from contract.server import Server
from contract.tables import MAPPED, NULLABLE, iso

MAPPING = "responseformat=parquet,delta;readerFeatures=columnMapping"


def head(reply: Reply) -> tuple[Line, Line]:
    """Return the contents of the two lines of a 200."""
    assert reply.kinds == ["protocol", "metaData"]
    protocol, metadata = reply.lines
    return protocol["protocol"], metadata["metaData"]


@pytest.mark.parametrize(
    ("capabilities", "answered"),
    [
        (None, "parquet"),
        ("responseformat=parquet", "parquet"),
        ("responseformat=delta", "delta"),
        ("responseformat=delta,parquet", "parquet"),
        ("responseformat=parquet,delta", "parquet"),
        ("responseFormat=DELTA", "delta"),
        ("readerfeatures=deletionvectors; responseformat=delta", "delta"),
        ("responseformat=iceberg,delta", "delta"),
        ("", "parquet"),
    ],
    ids=str,
)
def test_the_format_is_one_of_the_requested_formats(
    table: Callable[[str], Table], capabilities: str | None, answered: str
) -> None:
    reply = table("table1").with_capabilities(capabilities).metadata()
    protocol, metadata = head(reply)
    assert reply.version == 2
    assert reply.headers["content-type"] == NDJSON
    assert reply.headers[CAPABILITIES] == f"responseformat={answered}"
    assert ("deltaProtocol" in protocol, "deltaMetadata" in metadata) == ((answered == "delta"),) * 2


def test_the_end_stream_capability_has_no_effect_on_metadata(table: Callable[[str], Table]) -> None:
    reply = table("table1").with_capabilities("responseformat=delta;includeendstreamaction=true").metadata()
    assert reply.headers[CAPABILITIES] == "responseformat=delta"
    assert reply.kinds == ["protocol", "metaData"]


def test_metadata_that_is_small_after_compression_is_returned(server: Server) -> None:
    """Lambda takes 6 MB, of what leaves a function: 60,000 columns with comments compress to a fraction of that."""
    columns = [column(f"c{number}", pa.int64(), comment="what is measured " * 5) for number in range(60_000)]
    log = server.shelf.log("wide", pa.schema(columns))
    log.create()
    server.admin.tables.create("share1", "default", "wide", log.location)
    try:
        wide = Table(server.alice, "share1", "default", "wide")
        reply = wide.with_capabilities(accept_encoding="gzip").metadata()
        assert (reply.status, reply.headers["content-encoding"]) == (200, "gzip")
        assert reply.kinds == ["protocol", "metaData"]
        assert len(json.loads(head(reply)[1]["schemaString"])["fields"]) == 60_000
        wide.with_capabilities(accept_encoding="identity").metadata().refused(
            400, "UNSUPPORTED_OPERATION", "6 MB", "Accept compression (Accept-Encoding: gzip)"
        )
    finally:
        server.admin.tables.delete("share1", "default", "wide")


def test_geometries_are_returned_to_clients_that_announce_them(server: Server) -> None:
    """The commit is what Spark 4.2.1 with Delta 4.4.0 wrote; its connector, with client 1.4.1, read these columns."""
    types = {"id": "integer", "g": "geometry(OGC:CRS84)", "h": "geography(OGC:CRS84, SPHERICAL)"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    log = server.shelf.log("places", pa.schema([]))
    metadata = log.metadata()
    metadata["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    features = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial", "invariants", "appendOnly"]}
    statistics = {"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 1}, "nullCount": {"id": 0, "g": 0}}
    file = {"path": "p.parquet", "partitionValues": {}, "size": 1248, "modificationTime": 1, "dataChange": True}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    log.put_commit(0, [protocol, metadata, {"add": {**file, "stats": json.dumps(statistics)}}])
    server.admin.tables.create("share1", "default", "places", log.location)
    try:
        places = Table(server.alice, "share1", "default", "places")
        announced = places.with_capabilities("responseformat=delta;readerfeatures=geospatial")
        assert announced.query({"predicateHints": ["id = 1"]}).kinds == ["protocol", "metaData", "file"]
        assert announced.query({"predicateHints": ["id = 2"]}).kinds == ["protocol", "metaData"]
        delta = head(announced.metadata())[1]["deltaMetadata"]
        assert [field["type"] for field in json.loads(delta["schemaString"])["fields"]] == list(types.values())
        for capabilities in ("responseformat=delta", "responseformat=parquet"):
            places.with_capabilities(capabilities).query({}).refused(400, "UNSUPPORTED_OPERATION", "uses geospatial")
    finally:
        server.admin.tables.delete("share1", "default", "places")


def test_parquet_metadata_of_a_simple_table(table: Callable[[str], Table], server: Server) -> None:
    protocol, metadata = head(table("table1").metadata())
    written = server.shelf.written["table1"]
    assert protocol == {"minReaderVersion": 1}
    assert metadata == {
        "id": str(written.metadata().id),
        "format": {"provider": "parquet"},
        "schemaString": metadata["schemaString"],
        "partitionColumns": [],
        "configuration": {},
        "size": sum(file["size_bytes"] for file in pa.table(written.get_add_actions()).to_pylist()),
        "numFiles": 2,
        "accessModes": ["url"],
    }
    assert [column["name"] for column in json.loads(metadata["schemaString"])["fields"]] == ["eventTime", "date"]
    assert json.loads(metadata["schemaString"]) == json.loads(written.schema().to_json())


def test_delta_metadata_of_a_simple_table(table: Callable[[str], Table], server: Server) -> None:
    protocol, metadata = head(table("table1").with_capabilities("responseformat=delta").metadata())
    written = server.shelf.written["table1"]
    assert protocol == {
        "deltaProtocol": {
            "minReaderVersion": written.protocol().min_reader_version,
            "minWriterVersion": written.protocol().min_writer_version,
        }
    }
    delta = metadata.pop("deltaMetadata")
    assert delta["id"] == str(written.metadata().id)
    assert delta["format"] == {"provider": "parquet", "options": {}}
    assert delta["createdTime"] == written.metadata().created_time
    assert metadata["numFiles"] == 2
    assert metadata["size"] > 0


def test_partition_columns_are_returned(table: Callable[[str], Table]) -> None:
    for name, columns in {"table2": ["date"], "table1": []}.items():
        assert head(table(name).metadata())[1]["partitionColumns"] == columns


def test_a_table_with_directory_access_has_its_location(table: Callable[[str], Table]) -> None:
    _, metadata = head(table("directory_only").metadata())
    assert metadata["accessModes"] == ["dir"]
    assert metadata["location"] == "s3://deltaic-lake/table1"
    assert metadata["auxiliaryLocations"] == ["s3://elsewhere/more"]


def test_the_change_feed_is_announced_if_it_can_be_read(table: Callable[[str], Table]) -> None:
    reply = table("cdf_table_cdf_enabled").metadata()
    assert reply.version == 5
    assert head(reply)[1]["configuration"] == {"enableChangeDataFeed": "true"}
    delta = head(table("cdf_table_cdf_enabled").with_capabilities("responseformat=delta").metadata())[1][
        "deltaMetadata"
    ]
    # In-commit timestamps are the log's business, and other properties are the provider's.
    assert delta["configuration"] == {"delta.enableChangeDataFeed": "true"}


@pytest.mark.parametrize(
    ("parameters", "version", "nullable"),
    [
        ("?version=0", 0, False),
        ("?version=1", 1, False),
        ("?version=2", 2, True),
        ("?version=3", 3, True),
        ("?timestamp=2022-11-13T08:10:41Z", 0, False),
        ("?timestamp=2022-11-13T08:10:46Z", 1, False),
        ("?timestamp=2022-11-13T08:10:48Z", 2, True),
        ("?timestamp=2022-11-13T08:10:50Z", 3, True),
        (f"?timestamp={iso(NULLABLE + 6999)}", 1, False),
        ("?timestamp=2022-11-13T08%3A10%3A48Z", 2, True),
    ],
)
def test_metadata_of_a_version_or_a_time_is_returned(
    table: Callable[[str], Table], parameters: str, version: int, *, nullable: bool
) -> None:
    reply = table("streaming_notnull_to_null").metadata(parameters)
    _, metadata = head(reply)
    assert reply.version == version
    assert json.loads(metadata["schemaString"])["fields"][0]["nullable"] is nullable
    assert "version" not in metadata


@pytest.mark.parametrize(
    ("parameters", "code", "text"),
    [
        ("?version=4", "MALFORMED_REQUEST", "Cannot load table version 4"),
        ("?version=-1", "INVALID_PARAMETER_VALUE", "version cannot be negative"),
        ("?version=-1&timestamp=abc", "INVALID_PARAMETER_VALUE", "Please only provide one of: version,timestamp"),
        ("?version=abc", "INVALID_PARAMETER_VALUE", "expected a number but the string didn't have the appropriate"),
        ("?timestamp=2021-01-01", "INVALID_PARAMETER_VALUE", "Invalid timestamp"),
        ("?timestamp=2021-01-01T00:00:00Z", "MALFORMED_REQUEST", "is before the earliest available version"),
        ("?timestamp=2024-01-01T00:00:00Z", "MALFORMED_REQUEST", "is after the latest available version"),
    ],
)
def test_an_invalid_version_is_refused(table: Callable[[str], Table], parameters: str, code: str, text: str) -> None:
    table("streaming_notnull_to_null").metadata(parameters).refused(400, code, text)


def test_history_that_is_not_shared_is_refused(table: Callable[[str], Table]) -> None:
    for parameters in ("?version=1", "?timestamp=abc"):
        text = "history sharing is not enabled on table: share2.default.table2"
        table("table2").metadata(parameters).refused(400, "INVALID_PARAMETER_VALUE", text)


def test_metadata_before_the_start_version_is_refused(table: Callable[[str], Table]) -> None:
    """The reference tells the schema of versions that it does not share."""
    for parameters in ("?version=0", "?timestamp=2022-05-03T21:56:19.500Z"):
        reply = table("cdf_table_with_partition").metadata(parameters)
        reply.refused(400, "INVALID_PARAMETER_VALUE", "You can only query table data since version 1")
    assert table("cdf_table_with_partition").metadata("?version=1").version == 1


@pytest.mark.parametrize("capabilities", ["responseformat=delta;readerFeatures=columnMapping", MAPPING])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_is_returned_unchanged(table: Callable[[str], Table], capabilities: str, mode: str) -> None:
    reply = table(f"table_with_cm_{mode}").with_capabilities(capabilities).metadata()
    protocol, metadata = head(reply)
    assert reply.headers[CAPABILITIES] == "responseformat=delta"
    assert protocol == {"deltaProtocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    delta = metadata["deltaMetadata"]
    assert delta["configuration"] == {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "2"}
    assert delta["schemaString"] == delta_schema(MAPPED)
    assert delta["partitionColumns"] == ["name"]
    assert delta["createdTime"] == 1_650_000_000_000


@pytest.mark.parametrize(
    "capabilities",
    [None, "responseformat=parquet", "responseformat=delta", "responseformat=delta,parquet", "readerfeatures=x"],
    ids=str,
)
def test_column_mapping_is_refused_to_clients_that_cannot_read_it(
    table: Callable[[str], Table], capabilities: str | None
) -> None:
    reply = table("table_with_cm_id").with_capabilities(capabilities).metadata()
    reply.refused(400, "UNSUPPORTED_OPERATION", "Unsupported Delta Table Properties", "columnMapping", "readerfeatures")


def test_deletion_vectors_are_returned_unchanged(table: Callable[[str], Table]) -> None:
    name = "deletion_vectors_with_dvs_dv_property_on"
    capabilities = "responseformat=delta,parquet;readerfeatures=deletionVectors"
    protocol, metadata = head(table(name).with_capabilities(capabilities).metadata())
    features = ["deletionVectors"]
    assert protocol["deltaProtocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    assert metadata["deltaMetadata"]["description"] == "five rows, of which three are deleted, and five more"
    reply = table(name).with_capabilities("responseformat=parquet;readerfeatures=deletionvectors").metadata()
    reply.refused(400, "UNSUPPORTED_OPERATION", "deletionVectors", "responseformat=delta")


def test_an_unknown_reader_feature_is_refused_by_name(table: Callable[[str], Table]) -> None:
    reply = table("unknown_reader_feature").with_capabilities("responseformat=delta").metadata()
    reply.refused(400, "UNSUPPORTED_OPERATION", "timeTravelledFromTheFuture")


def test_a_log_without_metadata_is_not_a_server_error(table: Callable[[str], Table]) -> None:
    table("table_with_no_metadata").metadata().refused(400, "RESOURCE_DOES_NOT_EXIST", "metaData")


def test_a_request_without_a_known_format_is_refused(table: Callable[[str], Table]) -> None:
    reply = table("table1").with_capabilities("responseformat=iceberg").metadata()
    reply.refused(400, "INVALID_PARAMETER_VALUE", "iceberg", "parquet, delta")


def test_names_are_case_insensitive(server: Server) -> None:
    reply = server.alice.get("/shares/sHare1/schemas/deFault/tables/taBle3/metadata")
    assert reply.body == server.table("table3").metadata().body


def test_file_id_schemes_are_validated_and_returned(table: Callable[[str], Table]) -> None:
    reply = table("table1").with_capabilities(fileidhash="Delta").metadata()
    assert (reply.status, reply.headers["fileidhash"]) == (200, "delta")
    refused = table("table1").with_capabilities(fileidhash="md5").metadata()
    refused.refused(400, "INVALID_PARAMETER_VALUE", "Unsupported fileidhash: 'md5'")
