"""Test the capabilities and file id headers."""

import pytest
from deltaic.errors import InvalidParameter
from deltaic.protocol.capabilities import Capabilities, ResponseFormat, file_id_hash, reply
from hypothesis import given
from hypothesis import strategies as st

SPARK = (
    "responseformat=parquet,delta;readerfeatures=deletionVectors,columnMapping,timestampNtz,typeWidening-preview,"
    "typeWidening,variantType-preview,geospatial,variantType,variantShredding-preview,variantShredding"
)


@pytest.mark.parametrize(
    "header", [None, "", ";", "responseformat", "responseformat=", "responseFormat=,", "x=y", "=="]
)
def test_without_a_format_the_response_is_parquet(header: str | None) -> None:
    assert Capabilities.parse(header) == Capabilities(("parquet",), frozenset(), False, False)  # noqa: FBT003


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("responseformat=delta", ("delta",)),
        ("responseFormat=DELTA", ("delta",)),
        ("responseformat=delta,parquet", ("delta", "parquet")),
        ("responseformat=parquet,delta", ("parquet", "delta")),
        (" responseformat = delta , parquet ", ("delta", "parquet")),
        ("readerfeatures=a; responseformat=delta", ("delta",)),
        ("responseformat=iceberg,delta", ("delta",)),
        ("responseformat=delta,delta", ("delta",)),
        ("responseformat=parquet;responseformat=delta", ("delta",)),
        ("responseformat=delta;responseformat=a=b", ("delta",)),
        (SPARK, ("parquet", "delta")),
    ],
)
def test_formats(header: str, expected: tuple[str, ...]) -> None:
    assert Capabilities.parse(header).response_formats == expected


@pytest.mark.parametrize("header", ["responseformat=iceberg", "responseformat=csv,orc"])
def test_unsupported_formats_are_refused(header: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^Unsupported responseformat: '.*'\. Supported: parquet, delta$"):
        Capabilities.parse(header)


def test_reader_features_are_lower_case() -> None:
    features = Capabilities.parse(SPARK).reader_features
    assert {"deletionvectors", "columnmapping", "timestampntz", "typewidening-preview", "variantshredding"} <= features
    assert len(features) == 10


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("TRUE", True), (" True ", True), ("false", False), ("maybe", False)]
)
def test_flags(value: str, expected: bool) -> None:
    parsed = Capabilities.parse(f"responseformat=delta;includeEndStreamAction={value};AsyncQuery={value}")
    assert parsed.include_end_stream_action is expected
    assert parsed.async_query is expected


@pytest.mark.parametrize("response_format", ["parquet", "delta"])
def test_replies(response_format: ResponseFormat) -> None:
    header_value = f"responseformat={response_format}"
    assert reply(response_format) == header_value
    assert reply(response_format, end_stream_action=True) == f"{header_value};includeendstreamaction=true"
    assert reply(response_format, async_query=True) == f"{header_value};asyncquery=true"
    both = reply(response_format, end_stream_action=True, async_query=True)
    assert both == f"{header_value};includeendstreamaction=true;asyncquery=true"


def test_a_parquet_reply_never_contains_delta() -> None:
    assert "delta" not in reply("parquet", end_stream_action=True, async_query=True)


@given(st.text())
def test_any_header_is_read_or_refused(header: str) -> None:
    try:
        parsed = Capabilities.parse(header)
    except InvalidParameter:
        assert "responseformat" in header.lower()
    else:
        assert set(parsed.response_formats) <= {"parquet", "delta"}
        assert parsed.response_formats


@pytest.mark.parametrize(
    ("header", "expected"),
    [(None, None), ("parquet", "parquet"), ("delta", "delta"), (" Delta\t", "delta"), ("PARQUET", "parquet")],
)
def test_file_id_hash(header: str | None, expected: str | None) -> None:
    assert file_id_hash(header) == expected


@pytest.mark.parametrize(
    "header", ["sha512", "SHA3-256", "none", "blake2b", "md5", "sha256", "", "  ", "\t", "parquet,delta"]
)
def test_unsupported_file_id_hashes(header: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        file_id_hash(header)
    assert refusal.value.message == f"Unsupported fileidhash: '{header}'. Supported: parquet, delta"
