"""Test that a client gets a requested format that it can read, or an error with the features."""

import re

import pytest
from deltaic.errors import UnsupportedOperation
from deltaic.protocol.capabilities import Capabilities
from deltaic.protocol.negotiation import HARMLESS, canonical, choose_format
from hypothesis import given
from hypothesis import strategies as st

PYTHON = "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping,timestampntz"
SPARK = "responseformat=parquet,delta;readerfeatures=deletionVectors,columnMapping,timestampNtz,typeWidening-preview"


def choose(header: str | None, live: set[str], needed: set[str] | None = None) -> str:
    return choose_format(
        Capabilities.parse(header), misread_as_parquet=live, needed_for_delta=live if needed is None else needed
    )


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, "parquet"),
        ("responseformat=parquet", "parquet"),
        ("responseformat=delta", "delta"),
        ("responseformat=delta,parquet", "parquet"),
        ("responseformat=parquet,delta", "parquet"),
        (PYTHON, "parquet"),
        (SPARK, "parquet"),
    ],
)
@pytest.mark.parametrize(
    "features",
    [set(), {"v2Checkpoint"}, {"vacuumProtocolCheck", "inCommitTimestamp"}, {"rowTracking", "domainMetadata"}],
    ids=["plain", "v2 checkpoint", "log only", "writer only"],
)
def test_a_table_without_features_is_readable_in_both_formats(
    header: str | None, expected: str, features: set[str]
) -> None:
    assert choose(header, set(), features) == expected
    assert choose(header, features, features) == expected


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "timestampNtz"])
@pytest.mark.parametrize(
    "header", [PYTHON, SPARK, "responseformat=delta;readerfeatures=DeletionVectors,COLUMNMAPPING,timestampNTZ"]
)
def test_a_client_that_announces_the_feature_gets_delta(header: str, feature: str) -> None:
    assert choose(header, {feature}) == "delta"


@pytest.mark.parametrize(
    "header", [None, "responseformat=parquet", "responseformat=parquet;readerfeatures=deletionvectors"]
)
def test_parquet_is_refused_and_never_replaced(header: str | None) -> None:
    with pytest.raises(UnsupportedOperation) as refusal:
        choose(header, {"deletionVectors"}, {"deletionVectors", "columnMapping", "v2Checkpoint"})
    message = refusal.value.message
    assert message.startswith("Unsupported Delta Table Properties: the table uses deletionVectors, which the parquet")
    assert "responseformat=delta;readerfeatures=columnmapping,deletionvectors " in message
    assert refusal.value.code == "UNSUPPORTED_OPERATION"


@pytest.mark.parametrize("header", ["responseformat=delta", "responseformat=delta,parquet;readerfeatures=timestampntz"])
def test_delta_is_refused_to_a_client_that_does_not_announce_the_feature(header: str) -> None:
    with pytest.raises(UnsupportedOperation) as refusal:
        choose(header, {"columnMapping", "deletionVectors"})
    message = refusal.value.message
    assert (
        "Unsupported Delta Table Properties: the table uses columnMapping, deletionVectors, which this client"
        in message
    )
    assert "add readerfeatures=columnmapping,deletionvectors to" in message


@pytest.mark.parametrize("live", ["typeWidening", "typeWidening-preview"])
@pytest.mark.parametrize("announced", ["typeWidening", "typewidening-preview"])
def test_a_preview_equals_its_feature(live: str, announced: str) -> None:
    assert canonical(live) == canonical(announced) == "typewidening"
    assert choose(f"responseformat=delta;readerfeatures={announced}", {live}) == "delta"


@pytest.mark.parametrize("feature", ["timestampNtz", "typeWidening", "variantType", "variantShredding-preview"])
def test_self_checked_features_need_no_announcement_but_delta_format(feature: str) -> None:
    assert choose(PYTHON, {feature}) == "delta"
    with pytest.raises(UnsupportedOperation, match=re.escape(feature.removesuffix("-preview"))):
        choose("responseformat=parquet", {feature})


def test_an_unknown_feature_must_be_announced() -> None:
    with pytest.raises(UnsupportedOperation, match="the table uses newfeature,"):
        choose(PYTHON, {"newFeature"})


FEATURES = st.frozensets(
    st.sampled_from(["deletionVectors", "columnMapping", "typeWidening", "timestampNtz", "new", *sorted(HARMLESS)])
)
FORMATS = st.lists(st.sampled_from(["parquet", "delta"]), min_size=1, unique=True)


@given(FORMATS, FEATURES, FEATURES, FEATURES)
def test_the_response_has_a_requested_format_that_is_read_correctly(
    formats: list[str], announced: frozenset[str], misread: frozenset[str], needed: frozenset[str]
) -> None:
    header = f"responseformat={','.join(formats)};readerfeatures={','.join(announced)}"
    parsed = Capabilities.parse(header)
    advanced = {name for name in misread if name.lower() not in HARMLESS}
    try:
        chosen = choose_format(parsed, misread_as_parquet=misread, needed_for_delta=needed)
    except UnsupportedOperation:
        assert advanced or "parquet" not in formats
    else:
        assert chosen in formats
        assert chosen == "delta" or not advanced
        assert chosen == "parquet" or {"deletionVectors", "columnMapping"} & needed <= announced


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("responseformat=parquet", "parquet"),
        (None, "parquet"),
        ("responseformat=parquet,delta;readerfeatures=timestampNtz", "delta"),
        ("responseformat=delta,parquet", "delta"),
    ],
    ids=["asked for parquet", "asked for nothing", "reads both", "reads both, and does not announce it"],
)
def test_a_feature_that_parquet_clients_do_not_misread_prefers_delta_and_allows_parquet(
    header: str | None, expected: str
) -> None:
    parsed = Capabilities.parse(header)
    assert choose_format(parsed, misread_as_parquet=(), needed_for_delta=["timestampNtz"]) == expected
