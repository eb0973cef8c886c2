"""Test which table features are supported, and which of them a client must support."""

import json

import pytest
from delta_sharing_conformance.client import FEATURES
from deltaic.delta.actions import Metadata, Protocol, parse_metadata, parse_protocol
from deltaic.delta.features import READABLE, REFUSED, check_metadata, check_readable, live_features
from deltaic.errors import TableUnreadable, UnsupportedOperation
from deltaic.protocol.negotiation import HARMLESS, canonical
from deltaic.table_features import TABLE_FEATURES, Concerns, TableFeature
from deltaic_checkpoint.checkpoint_creation import FEATURES as CHECKPOINTED


def make_protocol(reader: int, *features: str) -> Protocol:
    action: dict[str, object] = {"minReaderVersion": reader, "minWriterVersion": 7, "writerFeatures": list(features)}
    if reader == 3:
        action["readerFeatures"] = list(features)
    return parse_protocol(action, "here")


def table(
    kind: object = "long", configuration: dict[str, str] | None = None, column: dict[str, object] | None = None
) -> Metadata:
    schema = {"type": "struct", "fields": [{"name": "c", "type": kind, "nullable": True, "metadata": column or {}}]}
    return parse_metadata({"id": "i", "schemaString": json.dumps(schema), "configuration": configuration}, "here")


@pytest.mark.parametrize(
    "feature",
    [
        "columnMapping",
        "deletionVectors",
        "geospatial",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    ],
)
def test_every_reader_feature_of_the_tested_spark_is_supported(feature: str) -> None:
    check_readable(make_protocol(3, feature))


def test_the_error_lists_all_unknown_features() -> None:
    with pytest.raises(UnsupportedOperation, match="collations-preview, somethingNew"):
        check_readable(make_protocol(3, "somethingNew", "deletionVectors", "collations-preview"))


@pytest.mark.parametrize("feature", REFUSED)
def test_an_unsupported_feature_is_refused_with_a_remedy(feature: str) -> None:
    with pytest.raises(UnsupportedOperation, match=rf"'{feature}'.*Ask the provider"):
        check_readable(make_protocol(3, "deletionVectors", feature))


def test_writer_features_do_not_matter() -> None:
    check_readable(make_protocol(1, "icebergCompatV9", "anything"))


@pytest.mark.parametrize(
    ("protocol", "metadata", "vectors", "live"),
    [
        pytest.param(make_protocol(1), table(), False, set(), id="plain"),
        pytest.param(make_protocol(3, "v2Checkpoint", "vacuumProtocolCheck"), table(), False, set(), id="log_only"),
        pytest.param(make_protocol(3, "deletionVectors"), table(), False, set(), id="vectors_possible_but_absent"),
        pytest.param(make_protocol(3, "deletionVectors"), table(), True, {"deletionVectors"}, id="vectors_present"),
        pytest.param(
            make_protocol(3, "deletionVectors"),
            table(configuration={"delta.enableDeletionVectors": "true"}),
            False,
            {"deletionVectors"},
            id="vectors_enabled",
        ),
        pytest.param(
            make_protocol(2),
            table(configuration={"delta.columnMapping.mode": "name"}),
            False,
            {"columnMapping"},
            id="column_mapping_by_version",
        ),
        pytest.param(
            make_protocol(2),
            table(configuration={"delta.columnMapping.mode": "none"}),
            False,
            set(),
            id="column_mapping_off",
        ),
        pytest.param(
            make_protocol(3, "timestampNtz"), table("timestamp_ntz"), False, {"timestampNtz"}, id="timestamp_ntz"
        ),
        pytest.param(make_protocol(3, "timestampNtz"), table("timestamp"), False, set(), id="timestamp_ntz_unused"),
        pytest.param(
            make_protocol(3, "variantType-preview", "variantShredding-preview"),
            table({"type": "array", "elementType": {"type": "map", "keyType": "string", "valueType": "variant"}}),
            False,
            {"variantType", "variantShredding"},
            id="nested_variant",
        ),
        pytest.param(
            make_protocol(3, "geospatial"),
            table({"type": "array", "elementType": "geography(OGC:CRS84, SPHERICAL)"}),
            False,
            {"geospatial"},
            id="nested_geography",
        ),
        pytest.param(make_protocol(3, "geospatial"), table(), False, set(), id="geospatial_unused"),
        pytest.param(
            make_protocol(3, "typeWidening"),
            table(column={"delta.typeChanges": []}),
            False,
            {"typeWidening"},
            id="type_widening",
        ),
    ],
)
def test_live_features(protocol: Protocol, metadata: Metadata, vectors: bool, live: set[str]) -> None:
    assert live_features(protocol, metadata, has_deletion_vectors=vectors) == live


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param('{"type":"struct","fields":5}', id="fields"),
        pytest.param('{"type":"struct","fields":[{"name":"x","type":"long","metadata":5}]}', id="metadata"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="depth"),
        pytest.param("{", id="no_json"),
    ],
)
def test_an_invalid_schema_is_refused(schema: str) -> None:
    with pytest.raises(TableUnreadable, match="schemaString"):
        live_features(make_protocol(1), parse_metadata({"id": "i", "schemaString": schema}, "here"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        pytest.param(["c", "lost"], "partitionColumns has 'lost', which the schema lacks", id="missing"),
        pytest.param(["C"], "partitionColumns has 'C', which the schema spells 'c'", id="other_case"),
        pytest.param(["s.c"], "'s.c', which the schema lacks", id="nested"),
    ],
)
def test_a_partition_column_that_the_schema_lacks_is_reported_by_name(columns: list[str], message: str) -> None:
    schema = table().schema_string
    check_metadata(parse_metadata({"id": "i", "schemaString": schema, "partitionColumns": ["c"]}, "here"))
    with pytest.raises(TableUnreadable, match=message):
        check_metadata(parse_metadata({"id": "i", "schemaString": schema, "partitionColumns": columns}, "here"))


@pytest.mark.parametrize("schema", ['{"type":"struct","fields":5}', "[" * 100_000, "{", '{"fields":[{}]}'])
def test_a_partitioned_table_with_an_invalid_schema_is_refused(schema: str) -> None:
    with pytest.raises(TableUnreadable, match="schemaString"):
        check_metadata(parse_metadata({"id": "i", "schemaString": schema, "partitionColumns": ["c"]}, "here"))


def test_files_in_another_format_are_refused() -> None:
    schema = table().schema_string
    check_metadata(parse_metadata({"id": "i", "schemaString": schema, "format": {"provider": "PARQUET"}}, "here"))
    with pytest.raises(UnsupportedOperation, match=r"in the format 'orc'; .*Ask the provider"):
        check_metadata(parse_metadata({"id": "i", "schemaString": schema, "format": {"provider": "orc"}}, "here"))


DOCUMENTED_FEATURES = {
    # Delta protocol, "Valid Feature Names in Table Features", and other names that Delta 4 writes.
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping",
    "identityColumns", "deletionVectors", "rowTracking", "timestampNtz", "domainMetadata", "v2Checkpoint",
    "icebergCompatV1", "icebergCompatV2", "clustering", "vacuumProtocolCheck", "variantType", "typeWidening",
}  # fmt: skip


def test_each_feature_of_the_protocol_is_listed_once() -> None:
    names = [feature.name for feature in TABLE_FEATURES]
    assert len(set(names)) == len(names)
    assert set(names) >= DOCUMENTED_FEATURES


@pytest.mark.parametrize("feature", TABLE_FEATURES, ids=lambda feature: feature.name)
def test_lists_of_features_follow_the_table(feature: TableFeature) -> None:
    is_reader_feature = feature.concerns in {Concerns.DATA, Concerns.LOG}
    assert (feature.name in READABLE) == is_reader_feature
    assert (feature.name in REFUSED) == (feature.concerns is Concerns.UNREAD)
    assert (canonical(feature.name) in HARMLESS) == (feature.concerns in {Concerns.LOG, Concerns.WRITERS})
    assert (feature.name in CHECKPOINTED) == feature.checkpointed
    assert (canonical(feature.name) in FEATURES.split(",")) == is_reader_feature
