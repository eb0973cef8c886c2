"""Values of properties are strings or lists of strings, and an audience is an id for some of these values."""

import hashlib

import pytest
from deltaic.partition_filters.audiences import audience
from deltaic.partition_filters.properties import value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("EU", "EU"),
        ("", ""),
        ('["EU","US"]', ("EU", "US")),
        (' [ "EU" ] ', ("EU",)),
        ("[]", ()),
        ('["EU", 1]', '["EU", 1]'),
        ('["EU"', '["EU"'),
        ("[EU]", "[EU]"),
        ('"EU"', '"EU"'),
        ('{"a": "b"}', '{"a": "b"}'),
        ("[" * 5000, "[" * 5000),
        ("[" + "9" * 5000 + "]", "[" + "9" * 5000 + "]"),
    ],
)
def test_property_is_a_string_or_a_list(text: str, value: str | tuple[str, ...]) -> None:
    assert value_of(text) == value


def test_audience_is_a_hash_of_canonical_json() -> None:
    canonical = b'[["region","EU"],["sites",["A","\\u00e9"]]]'
    assert (
        audience(["sites", "region"], {"region": "EU", "sites": '["\u00e9", "A", "A"]', "other": "x"})
        == hashlib.sha256(canonical).hexdigest()[:32]
    )
    assert audience([], {"region": "EU"}) == hashlib.sha256(b"[]").hexdigest()[:32]


def test_order_and_duplicates_of_names_do_not_matter() -> None:
    assert audience(["a", "b", "a"], {"a": "1", "b": "2"}) == audience(["b", "a"], {"b": "2", "a": "1", "c": "3"})


def test_different_values_have_different_audiences() -> None:
    values = ["EU", "eu", "", '["EU"]', '["EU","US"]', '["EU,US"]', "[EU]"]
    assert len({audience(["p"], {"p": value}) for value in values}) == len(values)
    assert audience(["a", "b"], {"a": "x", "b": "y"}) != audience(["a", "b"], {"a": "y", "b": "x"})


@pytest.mark.parametrize("properties", [{}, {"a": "1"}, {"a": "1", "b": "[]"}, {"a": "1", "B": "2"}])
def test_recipient_without_a_property_has_no_audience(properties: dict[str, str]) -> None:
    assert audience(["a", "b"], properties) is None
