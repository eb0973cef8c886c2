"""Test the naming rules and the limits of a share's attributes."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from deltaic.errors import InvalidParameter
from deltaic.protocol import names
from hypothesis import example, given
from hypothesis import strategies as st

CHECKS = {kind: partial(names.check_name, kind) for kind in ("share", "schema", "table", "recipient")}
ALL_CHECKS = pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())


@ALL_CHECKS
@pytest.mark.parametrize(
    "name",
    ["vaccine_share", "Vaccine-2024", "a", "x" * 255, "ünï", "名前", "per%cent", "a+b=c", "\u00a0", "\u2028"],
    ids=ascii,
)
def test_valid_names_are_returned_unchanged(check: Callable[[str], str], name: str) -> None:
    assert check(name) == name


@ALL_CHECKS
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        ("x" * 256, "256 characters; at most 255"),
        ("a b", "a space at position 1"),
        ("a/b", "'/' at position 1"),
        ("a\x00", "the control character 00"),
        ("a\x1f", "the control character 1F"),
        ("\n", "the control character 0A"),
        ("a\x7f", "DELETE"),
        ("\ud800", "unpaired surrogate"),
    ],
    ids=["empty", "long", "space", "slash", "nul", "us", "newline", "delete", "surrogate"],
)
def test_invalid_names_are_refused_with_the_reason(check: Callable[[str], str], name: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(message)):
        check(name)


def test_only_shares_can_have_a_period() -> None:
    assert names.check_name("share", "acme.share") == "acme.share"
    for kind in ("schema", "table"):
        with pytest.raises(InvalidParameter, match="contains a period"):
            names.check_name(kind, "a.b")


@pytest.mark.parametrize("name", ["a#b", "..", "."])
def test_a_name_that_clients_cannot_write_is_refused(name: str) -> None:
    for kind in ("share", "schema", "table"):
        with pytest.raises(InvalidParameter, match=r"no client can write|contains a period"):
            names.check_name(kind, name)
    with pytest.raises(InvalidParameter, match="no client can write the volume name"):
        names.check_name("volume", "a#b")
    assert names.check_name("recipient", "team#1") == "team#1"


def test_names_that_differ_in_case_have_the_same_key() -> None:
    assert names.key("sHare1") == names.key("Share1") == "share1"


def test_share_attributes_are_accepted_up_to_their_limits() -> None:
    assert names.check_display_name("x" * 255) == "x" * 255
    assert names.check_comment("x" * 65_536) == "x" * 65_536
    full = {f"{number:02d}".ljust(255, "k"): "v" * 1000 for number in range(50)}
    assert names.check_properties(full) == full


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: names.check_display_name("x" * 256), "displayName has 256 characters; at most 255"),
        (lambda: names.check_comment("x" * 65_537), "comment has 65537 characters; at most 65536"),
        (lambda: names.check_properties({str(i): "" for i in range(51)}), "51 pairs; at most 50"),
        (lambda: names.check_properties({"": "v"}), "key is empty"),
        (lambda: names.check_properties({"k" * 256: "v"}), "the key of a property has 256"),
        (lambda: names.check_properties({"owner": "v" * 1001}), "the value of property 'owner' has 1001"),
    ],
    ids=["display name", "comment", "pairs", "empty key", "key", "value"],
)
def test_share_attributes_beyond_their_limits_are_refused(action: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(message)):
        action()


@given(st.text(max_size=300))
@example("..")
@example("a#")
def test_names_are_accepted_by_the_rules_of_the_protocol_and_of_clients(name: str) -> None:
    lawful = 0 < len(name) <= 255 and not any(
        c in " /\x7f#" or ord(c) < 0x20 or 0xD800 <= ord(c) < 0xE000 for c in name
    )
    lawful = lawful and set(name) != {"."}
    if lawful:
        assert names.check_name("share", name) == name
        return
    with pytest.raises(InvalidParameter) as refusal:
        names.check_name("share", name)
    assert refusal.value.message.isascii()


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a.b.c", ("a", "b", "c")), ("a.dotted.share.b.c", ("a.dotted.share", "b", "c")), ("ü.b c.d", ("ü", "b c", "d"))],
)
def test_a_table_name_is_split_in_three_parts(text: str, parts: tuple[str, str, str]) -> None:
    assert names.split_table_name(text) == parts


@pytest.mark.parametrize("text", ["", "a", "a.b", ".", "..", ".b.c", "a..c", "a.b."])
def test_a_table_name_with_fewer_parts_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"is not a table name: use the form SHARE\.SCHEMA\.TABLE"):
        names.split_table_name(text)
