"""Keys: short enough for DynamoDB, one for each name, and in a range exactly what belongs there."""

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
def test_every_key_fits_whatever_is_typed(share: str, schema: str, table: str) -> None:
    for key in (
        keys.catalog_entry("share", share),
        keys.asset("table", share, schema, table),
        keys.recipient_entry("grant", share, table),
        keys.catalog_entry("recipient", share),
        keys.query(share, schema, table),
    ):
        assert len(key.pk.encode()) <= 2048
        assert len(key.sk.encode()) <= 1024
    for stretch in (keys.in_schema("table", share, schema, table), keys.in_share("table", share, f"{schema}/{table}")):
        assert len(stretch.low.encode()) <= 1024


@given(LEGAL, LEGAL)
@example(WIDEST, WIDEST[:-1] + "x")
@example("#", "#1")
def test_two_names_share_a_key_exactly_if_they_differ_in_case_only(one: str, other: str) -> None:
    assert (keys.segment(one) == keys.segment(other)) == (names.key(one) == names.key(other))


@given(LEGAL, LEGAL, LEGAL, LEGAL)
@example("s", "a", "a-b", "t")
@example("s", "a", "A", "t")
def test_a_range_holds_what_belongs_to_it(share: str, schema: str, other: str, table: str) -> None:
    stretch = keys.in_schema("table", share, schema)
    key = keys.asset("table", share, other, table)
    assert key.pk == stretch.pk
    assert (stretch.low <= key.sk <= stretch.high) == (names.key(schema) == names.key(other))
    everything = keys.in_share("table", share)
    assert everything.low <= key.sk <= everything.high
    schemas = keys.of_share("schema", share)
    assert not schemas.low <= key.sk <= schemas.high


@given(LEGAL, LEGAL)
@example("a", "a\U0010ffff")
def test_a_range_begins_strictly_after_its_position(after: str, name: str) -> None:
    stretch = keys.all_of("share", after)
    assert (keys.catalog_entry("share", name).sk >= stretch.low) == (keys.segment(name) > keys.segment(after))


_PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@settings(max_examples=tries(40))
@given(st.dictionaries(st.text(min_size=1, max_size=9), _PLAIN, max_size=4))
def test_what_is_stored_comes_back(item: dict[str, object]) -> None:
    assert unmarshal_item(marshal_item(item)) == item


def test_what_has_no_stored_form_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="float has no attribute form"):
        marshal_item({"a": 1.5})
