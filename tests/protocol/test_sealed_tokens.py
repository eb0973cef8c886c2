"""Test that a token returns its contents, and that no other text is accepted."""

import re
from datetime import timedelta
from typing import Any

import pytest
from deltaic.protocol.sealed_tokens import TokenContents, TokenSigner, checksum
from hypothesis import assume, given
from hypothesis import strategies as st

NOW = 1_700_000_000.0
HOUR = timedelta(hours=1)
SIGNER = TokenSigner(bytes(range(32)))
CLAIMS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=3),
    ),
    max_size=4,
)
SAMPLE = SIGNER.seal("page", {"version": 3, "position": ["a", 7]}, ttl=HOUR, now=NOW)


@given(CLAIMS, st.text(max_size=8))
def test_a_token_opens_to_its_claims(claims: dict[str, Any], kind: str) -> None:
    assume(not re.search("[\ud800-\udfff]", kind))
    token = SIGNER.seal(kind, claims, ttl=HOUR, now=NOW)
    assert re.fullmatch("[A-Za-z0-9_-]+", token)
    assert SIGNER.open(kind, token) == TokenContents(claims, int(NOW) + 3600)


def test_the_size_of_a_token_is_independent_of_its_position() -> None:
    def sealed(row: int) -> str:
        return SIGNER.seal("page", {"version": 3, "position": ["base", 1, 0, row, 0]}, ttl=HOUR, now=NOW)

    assert {len(sealed(row)) for row in (0, 127, 128, 255, 256, 65_536, 1 << 40)} == {len(sealed(1))}


@given(st.data())
def test_any_edit_is_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SAMPLE) - 1))
    character = data.draw(st.characters(codec="utf-8") | st.sampled_from("ABab01-_+/= \n"))
    edit = data.draw(st.sampled_from(["replace", "insert", "delete", "truncate"]))
    edited = {
        "replace": SAMPLE[:at] + character + SAMPLE[at + 1 :],
        "insert": SAMPLE[:at] + character + SAMPLE[at:],
        "delete": SAMPLE[:at] + SAMPLE[at + 1 :],
        "truncate": SAMPLE[:at],
    }[edit]
    assume(edited != SAMPLE)
    assert SIGNER.open("page", edited) is None


@pytest.mark.parametrize("length", range(1, 5))
def test_a_token_has_only_one_text(length: int) -> None:
    """The last character of base64 can have unused bits; only one of its spellings is accepted."""
    token = SIGNER.seal("k", {"a": "x" * length}, ttl=HOUR, now=NOW)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert [c for c in alphabet if SIGNER.open("k", token[:-1] + c)] == [token[-1]]
    for padded in (token + "=", token + "==", token + "\n", " " + token, token.replace("-", "+").replace("_", "/")):
        assert padded == token or SIGNER.open("k", padded) is None


@given(st.text() | st.binary().map(lambda content: content.hex()))
def test_garbage_is_refused(token: str) -> None:
    assert SIGNER.open("page", token) is None


@pytest.mark.parametrize("token", ["", ":", "a1b", "randomPageToken", "=", "\ud800", "é" * 80, "A" * 100_000, "A" * 60])
def test_known_garbage_is_refused(token: str) -> None:
    assert SIGNER.open("page", token) is None


def test_a_token_of_another_kind_or_key_is_refused() -> None:
    assert SIGNER.open("list", SAMPLE) is None
    assert SIGNER.open("pag", SAMPLE) is None
    assert TokenSigner(bytes(range(1, 33))).open("page", SAMPLE) is None
    assert TokenSigner(bytes(range(33))).open("page", SAMPLE) is None


def test_a_token_expires() -> None:
    contents = SIGNER.open("page", SAMPLE)
    assert contents is not None
    assert not contents.expired(NOW + 3599.9)
    assert contents.expired(NOW + 3600)
    at_once = SIGNER.open("page", SIGNER.seal("page", {}, ttl=timedelta(0), now=NOW))
    assert at_once is not None
    assert at_once.expired(NOW)


@pytest.mark.parametrize("key", [b"", b"x" * 31])
def test_a_short_key_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="at least 32 are needed"):
        TokenSigner(key)


def test_the_key_is_not_in_the_representation() -> None:
    assert "key" not in repr(TokenSigner(b"k" * 32)).replace("_key", "")


def test_a_checksum_depends_on_values_and_not_on_order() -> None:
    assert checksum({"a": 1, "b": ("x",)}) == checksum({"b": ["x"], "a": 1})
    assert checksum({"a": 1}) != checksum({"a": "1"})
    assert checksum({"a": None}) != checksum({"a": ""})
    assert checksum({"a": "\ud800"}) != checksum({"a": "\udfff"})
