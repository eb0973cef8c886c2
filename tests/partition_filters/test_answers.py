"""Visible files: operators, ambiguous partition values, properties and identities."""

import hashlib

import pytest
from deltaic.errors import TableUnreadable
from deltaic.partition_filters import evaluate, parse
from deltaic.partition_filters.bound_filter import BoundFilter
from partitioned_table import TABLE, TYPES, Metadata, column, schema

MAPPED = {"delta.columnMapping.mode": "name"}
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def bind(text: str, **properties: str) -> BoundFilter:
    return evaluate([parse(text)], properties, TABLE)


def sees(text: str, values: dict[str, str | None], **properties: str) -> bool:
    return bind(text, **properties).sees(values)


OPERATORS = [
    ("region = 'EU'", {"region": "EU"}, {"region": "eu"}),
    ("region <> 'EU'", {"region": "eu"}, {"region": "EU"}),
    ("region != 'EU'", {"region": "eu"}, {"region": None}),
    ("'EU' = region", {"region": "EU"}, {"region": "EUR"}),
    ("`Region` = 'it''s'", {"region": "it's"}, {"region": "its"}),
    ("region = 'a\\b'", {"region": "a\\b"}, {"region": "ab"}),
    ("region < '\U0001f600'", {"region": "\uffff"}, {"region": "\U0001f601"}),
    ("region >= 'b'", {"region": "b"}, {"region": "B"}),
    ("region IN ('EU', 'US')", {"region": "US"}, {"region": "ASIA"}),
    ("region IN ('EU')", {"region": "EU"}, {"region": "US"}),
    ("region NOT IN ('EU', 'US')", {"region": "ASIA"}, {"region": None}),
    ("region LIKE 'north%'", {"region": "northern"}, {"region": "North"}),
    ("region NOT LIKE 'north%'", {"region": "south"}, {"region": None}),
    ("region LIKE '%'", {"region": "x"}, {"region": None}),
    ("region IS NULL", {"region": None}, {"region": "EU"}),
    ("region IS NULL", {}, {"region": "NULL"}),
    ("region IS NOT NULL", {"region": "EU"}, {}),
    ("region = site", {"region": "a", "site": "a"}, {"region": "a", "site": None}),
    ("NOT (region = 'EU')", {"region": "US"}, {"region": None}),
    ("NOT region = 'EU' AND year = 1", {"region": "US", "year": "1"}, {"region": "US", "year": "2"}),
    ("region = 'EU' OR year = 1 AND final = TRUE", {"region": "EU"}, {"year": "1", "final": "false"}),
    ("year = 1 AND site = 'x' OR region = 'EU'", {"region": "EU", "year": "2"}, {"region": "US", "year": "1"}),
    ("(region = 'EU' OR year = 1) AND final = TRUE", {"year": "1", "final": "true"}, {"region": "EU"}),
    ("region = 'EU' OR year = 1", {"region": None, "year": "1"}, {"region": None, "year": "2"}),
    ("year >= 2024", {"year": "2024"}, {"year": "2023"}),
    ("2024 < year", {"year": "2025"}, {"year": "2024"}),
    ("year < 99999999999", {"year": "2147483647"}, {"year": "2147483648"}),
    ("year > 2024.5", {"year": "2025"}, {"year": "2024"}),
    ("year BETWEEN 2020 AND 2024", {"year": "2020"}, {"year": "2025"}),
    ("year NOT BETWEEN 2020 AND 2024", {"year": "2019"}, {"year": "2024"}),
    ("2024 BETWEEN month AND year", {"month": "1", "year": "2024"}, {"month": "2025", "year": "2030"}),
    ("patient = 9007199254740993", {"patient": "9007199254740993"}, {"patient": "9007199254740992"}),
    ("patient = -9223372036854775808", {"patient": "-9223372036854775808"}, {"patient": "9223372036854775808"}),
    ("amount = 1.5", {"amount": "1.50"}, {"amount": "1.51"}),
    ("amount > -0.015", {"amount": "-0.01"}, {"amount": "-0.02"}),
    ("amount < 1", {"amount": "1e-2"}, {"amount": "1.00"}),
    ("day < '1970-01-01'", {"day": "1969-12-31"}, {"day": "1970-01-01"}),
    ("day = DATE '9999-12-31'", {"day": "9999-12-31"}, {"day": "10000-01-01"}),
    ("at = TIMESTAMP '2024-01-01 01:00:00+01:00'", {"at": "2024-01-01T00:00:00Z"}, {"at": "2024-01-01 00:00:00"}),
    ("at >= '2024-01-01T00:00:00Z'", {"at": "2024-01-01 18:00:00"}, {"at": "2024-01-01 17:59:59"}),
    ("clock = TIMESTAMP_NTZ '2024-01-01'", {"clock": "2024-01-01 00:00:00"}, {"clock": "2024-01-01T00:00:00Z"}),
    ("clock < '2024-01-01 00:00:00.000001'", {"clock": "2024-01-01 00:00:00"}, {"clock": "2024-01-01 00:00:00.000001"}),
    ("final = TRUE", {"final": "True"}, {"final": "false"}),
    ("final <> true", {"final": "false"}, {"final": "yes"}),
]


@pytest.mark.parametrize(("text", "visible", "hidden"), OPERATORS, ids=[case[0] for case in OPERATORS])
def test_file_is_visible_if_the_filter_is_true(
    text: str, visible: dict[str, str | None], hidden: dict[str, str | None]
) -> None:
    assert [sees(text, visible), sees(text, hidden)] == [True, False]


@pytest.mark.parametrize("text", ["", HIVE_NULL])
def test_empty_string_can_be_null_or_a_string(text: str) -> None:
    assert not sees("region IS NULL", {"region": text})
    assert not sees("region IS NOT NULL", {"region": text})
    assert not sees(f"region = '{text}'", {"region": text})
    assert not sees("region <> 'EU'", {"region": text})
    assert sees(f"region IS NULL OR region = '{text}'", {"region": text})
    assert sees("region = 'EU' OR year = 1", {"region": text, "year": "1"})


@pytest.mark.parametrize("name", [name for name, type_ in TYPES.items() if type_ != "string"])
@pytest.mark.parametrize("text", ["", HIVE_NULL])
def test_empty_string_is_null_for_other_types(name: str, text: str) -> None:
    assert sees(f"{name} IS NULL", {name: text})
    assert not sees(f"{name} IS NOT NULL", {name: text})


UNREADABLE = {
    "dose": "300",
    "month": "1.5",
    "year": "two",
    "patient": "9223372036854775808",
    "amount": "1.255",
    "day": "2024-02-30",
    "at": "noon",
    "clock": "24:00",
    "final": "1",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_value_hides_the_file(name: str) -> None:
    values: dict[str, str | None] = {name: UNREADABLE[name], "region": "EU"}
    for text in (f"{name} IS NULL", f"{name} IS NOT NULL", f"NOT {name} IS NULL AND region = 'EU'"):
        assert not sees(text, values)
    assert sees(f"{name} IS NULL OR region = 'EU'", values)


def test_number_with_too_many_digits_is_unreadable() -> None:
    assert sees("amount > 1", {"amount": "99999999.99"})
    assert not sees("amount > 1", {"amount": "100000000"})


def test_file_with_too_many_possible_values_is_hidden() -> None:
    names = [f"c{number}" for number in range(7)]
    table = Metadata(schema(*(column(name, "string") for name in names)), names)
    for count, visible in ((6, True), (7, False)):
        filter_ = parse(" AND ".join(f"({name} IS NULL OR {name} = '')" for name in names[:count]))
        assert evaluate([filter_], {}, table).sees(dict.fromkeys(names, "")) is visible


PROPERTIES = [
    ("region = current_recipient('p')", {"region": "EU"}, "EU", "eu"),
    ("region IN current_recipient('p')", {"region": "EU"}, '["US","EU"]', '["US"]'),
    ("region IN current_recipient('p')", {"region": "EU"}, "EU", '["EU",1]'),
    ("region IN (current_recipient('p'), 'x')", {"region": "EU"}, '["EU"]', '["US"]'),
    ("region NOT IN current_recipient('p')", {"region": "EU"}, '["US"]', '["US","EU"]'),
    ("region = current_recipient('p')", {"region": '["EU"'}, '["EU"', '["EU"]'),
    ("region LIKE 'E%' AND current_recipient('p') = 'staff'", {"region": "EU"}, "staff", "Staff"),
    ("current_recipient('p') = 'staff' OR region = 'US'", {"region": "EU"}, "staff", "guest"),
    ("current_recipient('p') LIKE 'st%'", {}, "staff", "Staff"),
    ("'admin' IN current_recipient('p')", {}, '["user","admin"]', '["user"]'),
    ("current_recipient('p') IN ('a', 'b')", {}, "b", "c"),
    ("current_recipient('p') BETWEEN '1' AND '2'", {}, "10", "3"),
    ("current_recipient('p') <> current_recipient('q')", {}, "x", "q"),
    ("year >= current_recipient('p')", {"year": "2024"}, "2024", "2025"),
    ("amount = current_recipient('p')", {"amount": "1.50"}, "1.5", "1.51"),
    ("day >= current_recipient('p')", {"day": "2024-01-01"}, "2024-01-01", "2024-01-02"),
    ("at >= current_recipient('p')", {"at": "2024-01-01T00:00:00Z"}, "2024-01-01 00:00:00Z", "2024-01-01 00:00:00"),
    ("clock >= current_recipient('p')", {"clock": "2024-01-01 00:00:00"}, "2024-01-01", "2024-01-01 00:00:00Z"),
    ("final = current_recipient('p')", {"final": "true"}, "TRUE", "false"),
]


@pytest.mark.parametrize(("text", "values", "visible", "hidden"), PROPERTIES)
def test_property_decides(text: str, values: dict[str, str | None], visible: str, hidden: str) -> None:
    assert [sees(text, values, p=visible, q="q"), sees(text, values, p=hidden, q="q")] == [True, False]


# True for every value of the property, so only a missing property can hide the file.
ALWAYS_TRUE = [
    "year = 1 OR year = current_recipient('p')",
    "year = 1 OR NOT year = current_recipient('p')",
    "NOT (year = 2 AND year = current_recipient('p'))",
    "year = 1 OR year IN current_recipient('p')",
    "year = 1 OR year NOT IN (current_recipient('p'), 7)",
    "year = 1 OR year BETWEEN current_recipient('p') AND 7",
]


@pytest.mark.parametrize("text", ALWAYS_TRUE)
@pytest.mark.parametrize(
    "properties",
    [{}, {"P": "1"}, {"p": ""}, {"p": "[]"}, {"p": "x"}, {"p": "2147483648"}, {"p": '["1","x"]'}, {"p": "1.0"}],
)
def test_recipient_without_a_property_sees_nothing(text: str, properties: dict[str, str]) -> None:
    assert sees(text, {"year": "1"}, p="5")
    assert not sees(text, {"year": "1"}, **properties)


@pytest.mark.parametrize("text", [filter_ for filter_ in ALWAYS_TRUE if " IN " not in filter_])
def test_list_instead_of_a_single_value_counts_as_missing(text: str) -> None:
    assert not sees(text, {"year": "1"}, p='["5"]')


@pytest.mark.parametrize(
    "text",
    ["region = 'EU' OR current_recipient('p') LIKE 'x%'", "region = 'EU' OR current_recipient('p') IN ('x')"],
)
def test_list_is_not_a_string(text: str) -> None:
    assert sees(text, {"region": "EU"}, p="y")
    assert not sees(text, {"region": "EU"}, p='["y"]')


def test_filters_are_combined_with_and() -> None:
    both = evaluate([parse("region = 'EU'"), parse("year = current_recipient('year')")], {"year": "1"}, TABLE)
    assert both.sees({"region": "EU", "year": "1"})
    assert not both.sees({"region": "EU", "year": "2"})
    assert not both.sees({"region": "US", "year": "1"})
    assert not evaluate([parse("region = 'EU'"), parse("year = current_recipient('year')")], {}, TABLE).sees(
        {"region": "EU", "year": "1"}
    )


def test_no_filter_shows_every_file() -> None:
    assert evaluate([], {}, TABLE).sees({})
    assert evaluate([], {}, TABLE).sees(None)


def test_action_without_partition_values_is_hidden() -> None:
    assert not bind("region IS NULL").sees(None)
    assert bind("current_recipient('p') = 'x'", p="x").sees(None)
    assert not bind("current_recipient('p') = 'x'").sees(None)


def test_column_mapping_uses_physical_names() -> None:
    table = Metadata(
        schema(column("Region", "string", **{"delta.columnMapping.physicalName": "col-1"})), ["Region"], MAPPED
    )
    bound = evaluate([parse("region = 'EU'")], {}, table)
    assert list(bound.columns) == ["col-1"]
    assert bound.sees({"col-1": "EU"})
    assert not bound.sees({"Region": "EU", "region": "EU"})


@pytest.mark.parametrize(
    "table",
    [
        Metadata(TABLE.schema_string, ["region"]),
        Metadata(schema(column("year", "string")), ["year"]),
        Metadata(schema(), []),
        Metadata("", ["year"]),
    ],
)
def test_filter_that_does_not_match_the_schema_is_an_error(table: Metadata) -> None:
    with pytest.raises(TableUnreadable) as error:
        evaluate([parse("year = 1 OR year = current_recipient('p')")], {}, table)
    assert error.value.message == (
        "the table's partition filter does not match the schema of this version: ask the provider to fix it, or read "
        "another version"
    )
    assert error.value.detail.startswith("the partition filter is invalid at character ")


def test_filter_has_its_columns_and_properties() -> None:
    parsed = parse("Region = current_recipient('b') AND (REGION = 'x' OR year IN (current_recipient('a'), 3, 4))")
    assert (parsed.columns, parsed.properties) == (("Region", "year"), ("b", "a"))
    assert parsed == parse(parsed.text)


TEXT = "region = current_recipient('p') AND year > 1"


def test_identity_depends_on_filters_properties_and_columns() -> None:
    bound = bind(TEXT, p="EU", other="x")
    assert bound == bind(TEXT, p="EU")
    assert len({bound, bind(TEXT, p="EU")}) == 1
    long_year = Metadata(
        schema(*(column(name, "long") for name in ["year"]), column("region", "string")), ["region", "year"]
    )
    different = [
        bind(TEXT, p="US"),
        bind(TEXT, p='["EU"]'),
        bind(TEXT),
        bind(TEXT + " AND year > 2", p="EU"),
        evaluate([parse(TEXT), parse("year > 2")], {"p": "EU"}, TABLE),
        evaluate([parse(TEXT)], {"p": "EU"}, long_year),
    ]
    assert len({bound.identity, *(item.identity for item in different)}) == 7


def test_identity_is_the_same_in_every_process() -> None:
    canonical = f'[["{TEXT}"],[["p","EU"]],[["region","string"],["year","integer"]]]'
    assert bind(TEXT, p="EU").identity == hashlib.sha256(canonical.encode()).hexdigest()
