"""Keys: short enough for DynamoDB, unique for each name, and in exactly the right ranges."""

import pytest
from deltaic.catalog import keys
from deltaic.catalog.attributes import marshal_item, unmarshal_item
from deltaic.protocol import names
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import tries

LEGAL = st.text(
    st.characters(min_codepoint=0x21, exclude_characters="/\x7f", exclude_categories=["Cs"]), min_size=1, max_size=255
)
ANY = st.text(st.characters(exclude_categories=[]), max_size=300)
WIDEST = "\U0001f600" * 255


@given(ANY, ANY, ANY)
@example(WIDEST, WIDEST, WIDEST)
@example("\u0130" * 255, "\u0130" * 255, "")
def test_every_key_fits_for_any_name(share: str, schema: str, table: str) -> None:
    for key in (
        keys.catalog_entry("share", share),
        keys.asset("table", share, schema, table),
        keys.recipient_entry("grant", share, table),
        keys.catalog_entry("recipient", share),
        keys.query(share, schema, table),
    ):
        assert len(key.pk.encode()) <= 2048
        assert len(key.sk.encode()) <= 1024
    for key_range in (
        keys.in_schema("table", share, schema, table),
        keys.in_share("table", share, f"{schema}/{table}"),
    ):
        assert len(key_range.low.encode()) <= 1024


@given(LEGAL, LEGAL)
@example(WIDEST, WIDEST[:-1] + "x")
@example("#", "#1")
def test_names_have_the_same_key_if_they_differ_only_in_case(first: str, second: str) -> None:
    assert (keys.segment(first) == keys.segment(second)) == (names.key(first) == names.key(second))


@given(LEGAL, LEGAL, LEGAL, LEGAL)
@example("s", "a", "a-b", "t")
@example("s", "a", "A", "t")
def test_range_contains_exactly_its_entries(share: str, schema: str, second: str, table: str) -> None:
    key_range = keys.in_schema("table", share, schema)
    key = keys.asset("table", share, second, table)
    assert key.pk == key_range.pk
    assert (key_range.low <= key.sk <= key_range.high) == (names.key(schema) == names.key(second))
    share_range = keys.in_share("table", share)
    assert share_range.low <= key.sk <= share_range.high
    schemas = keys.of_share("schema", share)
    assert not schemas.low <= key.sk <= schemas.high


@given(LEGAL, LEGAL)
@example("a", "a\U0010ffff")
def test_range_starts_strictly_after_its_position(after: str, name: str) -> None:
    key_range = keys.all_of("share", after)
    assert (keys.catalog_entry("share", name).sk >= key_range.low) == (keys.segment(name) > keys.segment(after))


_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@settings(max_examples=tries(40))
@given(st.dictionaries(st.text(min_size=1, max_size=9), _VALUES, max_size=4))
def test_stored_item_is_read_unchanged(item: dict[str, object]) -> None:
    assert unmarshal_item(marshal_item(item)) == item


def test_value_without_an_attribute_form_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a value of type float cannot be stored in DynamoDB"):
        marshal_item({"a": 1.5})
