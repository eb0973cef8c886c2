"""Test that deletion vector descriptors resolve like the examples of the Delta protocol."""

import uuid
import zlib

import pytest
from deltaic.delta.deletion_vectors import DeletionVector, decode_z85, file_path, inline, unique_id
from deltaic.errors import TableUnreadable
from hypothesis import given, settings
from hypothesis import strategies as st

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def encode(raw: bytes) -> str:
    """Encode as Z85 (ZeroMQ RFC 32), word by word."""
    text = ""
    for at in range(0, len(raw), 4):
        word = int.from_bytes(raw[at : at + 4], "big")
        text += "".join(ALPHABET[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        # Delta protocol, "JSON Example 1" to 3.
        pytest.param(
            "u",
            "ab^-aqEH.-t@S}K{vb[*k^",
            "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
            id="with_prefix",
        ),
        pytest.param(
            "u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", id="without_prefix"
        ),
        pytest.param(
            "p", "s3://mytable/deletion_vector_d2c639aa.bin", "s3://mytable/deletion_vector_d2c639aa.bin", id="p"
        ),
        pytest.param("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, id="inline"),
    ],
)
def test_examples_of_the_protocol_resolve(kind: str, name: str, path: str | None) -> None:
    assert file_path(kind, name) == path


def test_the_id_of_a_vector_includes_its_offset() -> None:
    assert unique_id("u", "ab^-aqEH.-t@S}K{vb[*k^", 4) == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert unique_id("i", "abc", None) == "iabc"
    assert DeletionVector("u", "x", 1, 1, 0).unique_id == "ux@0"


@settings(deadline=None)
@given(st.binary(min_size=16, max_size=16), st.text("abcXYZ019", max_size=4))
def test_every_uuid_resolves(raw: bytes, prefix: str) -> None:
    folder = f"{prefix}/" if prefix else ""
    assert file_path("u", prefix + encode(raw)) == f"{folder}deletion_vector_{uuid.UUID(bytes=raw)}.bin"


@settings(deadline=None)
@given(st.binary().map(lambda raw: raw[: len(raw) // 4 * 4]))
def test_z85_round_trips(raw: bytes) -> None:
    assert decode_z85(encode(raw)) == raw


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("u", "tooShort", id="too_short"),
        pytest.param("u", "", id="empty"),
        pytest.param("u", "ab^-aqEH.-t@S}K{vb[~k^", id="foreign_character"),
        pytest.param("u", "#####" * 4, id="word_too_large"),
        pytest.param("x", "abc", id="unknown_storage"),
    ],
)
def test_broken_descriptors_are_refused(kind: str, name: str) -> None:
    with pytest.raises(TableUnreadable, match="deletion vector"):
        file_path(kind, name)


@pytest.mark.parametrize("size", [-1, 0, 5, 1 << 32])
def test_a_vector_of_another_size_than_in_the_log_is_corrupt(size: int) -> None:
    with pytest.raises(TableUnreadable, match="corrupt"):
        inline((4).to_bytes(4, "big") + b"data" + zlib.crc32(b"data").to_bytes(4, "big"), size)
