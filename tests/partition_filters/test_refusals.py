"""A filter that is wrong is refused with the character, the reason and the remedy."""

import pytest
from deltaic.errors import InvalidParameter
from deltaic.partition_filters import check, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from partitioned_table import TABLE, TYPES, Metadata, column, schema

COLUMNS = "its partition columns are " + ", ".join([*TYPES, "weight", "ratio", "code"])
COMPARE = "with =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL; a boolean column is compared with TRUE or FALSE"
OPERAND = "write a partition column, a literal or current_recipient('property')"
QUOTES = "write the literal in 'quotes'; beside a column a property is read as the column's type"
LITERALS = "two literals are compared, which says nothing of a file"
PATTERN = "write a text that ends with its only %, as in LIKE 'north%'; for anything else compare with = or IN"
NULL = "nothing is ever equal to NULL; write IS NULL or IS NOT NULL"
JOIN = "join conditions by AND or OR, and see that every parenthesis has its other half"
LIST = "keep long lists in a property of the recipients and write IN current_recipient('property')"
MOMENT = (
    "write it with its offset from UTC, as TIMESTAMP '2024-12-31 12:00:00Z' or '... +01:00', "
    "or TIMESTAMP_NTZ for a column without a zone"
)
MADE_OF = "a condition is made of columns, literals, current_recipient('property'), comparisons, AND, OR and NOT"
AT = "write TIMESTAMP '2024-12-31 12:00:00Z', with its offset from UTC"
CLOCK = "write TIMESTAMP_NTZ '2024-12-31 12:00:00', without an offset"

REFUSED = [
    ("regoin = 'EU'", 1, f"the table has no column regoin to filter by; {COLUMNS}"),
    ("year = 1 AND reaction = 'x'", 14, f"reaction is not a partition column; {COLUMNS}"),
    ("`place.city` = 'x'", 1, f"place.city is not a partition column; {COLUMNS}"),
    (
        "place.city = 'x'",
        6,
        (
            "'.' has no meaning here; columns within structs are never partition columns; a column with a dot in its "
            "name stands in `backticks`"
        ),
    ),
    (
        "weight > 1",
        1,
        (
            "weight is of type double, and cannot be compared exactly: its values are rounded; "
            "filter by another partition column"
        ),
    ),
    (
        "ratio IS NULL",
        1,
        (
            "ratio is of type float, and cannot be compared exactly: its values are rounded; "
            "filter by another partition column"
        ),
    ),
    (
        "code = 'x'",
        1,
        (
            "code is of type binary, and cannot be compared exactly: its values are bytes, which texts cannot tell for "
            "certain; filter by another partition column"
        ),
    ),
    ("region = 3", 10, "region is of type string, which 3 is not; write a text, as 'EU'"),
    ("region IN ('a', -3)", 17, "region is of type string, which -3 is not; write a text, as 'EU'"),
    ("region = TRUE", 10, "region is of type string, which TRUE is not; write a text, as 'EU'"),
    ("year = '2024'", 8, "year is of type integer, which '2024' is not; write a number, as 2024"),
    (
        "amount <> DATE '2024-01-01'",
        11,
        "amount is of type decimal(10,2), which DATE '2024-01-01' is not; write a number, as 12.50",
    ),
    ("final = 1", 9, "final is of type boolean, which 1 is not; write TRUE or FALSE"),
    ("final = 'true'", 9, "final is of type boolean, which 'true' is not; write TRUE or FALSE"),
    ("day = 20240101", 7, "day is of type date, which 20240101 is not; write DATE '2024-12-31'"),
    ("day = '2024-02-30'", 7, "day is of type date, which '2024-02-30' is not; write DATE '2024-12-31'"),
    ("at >= '2024-01-01 00:00:00'", 7, f"at is of type timestamp, which '2024-01-01 00:00:00' is not; {AT}"),
    ("at >= DATE '2024-01-01'", 7, f"at is of type timestamp, which DATE '2024-01-01' is not; {AT}"),
    (
        "clock < '2024-01-01 00:00:00Z'",
        9,
        f"clock is of type timestamp_ntz, which '2024-01-01 00:00:00Z' is not; {CLOCK}",
    ),
    ("day = DATE '2024-13-01'", 12, "'2024-13-01' is not a date; write it as DATE '2024-12-31'"),
    ("at = TIMESTAMP '2024-01-01'", 16, f"'2024-01-01' is not a moment; {MOMENT}"),
    (
        "clock = TIMESTAMP_NTZ '2024-01-01 00:00:00Z'",
        23,
        (
            "'2024-01-01 00:00:00Z' is not a time without a zone; write it without an offset, as "
            "TIMESTAMP_NTZ '2024-12-31 12:00:00', or TIMESTAMP with one"
        ),
    ),
    (
        "region = year",
        10,
        "region is of type string and year of type integer; compare columns of the same type only",
    ),
    ("region = NULL", 10, NULL),
    ("NULL <> region", 1, NULL),
    ("region IN ('a', NULL)", 17, NULL),
    ("year BETWEEN 1 AND NULL", 20, NULL),
    ("1 = 1", 5, f"{LITERALS}; {OPERAND}"),
    ("'a' BETWEEN region AND 'b'", 24, f"{LITERALS}; {OPERAND}"),
    ("'a' IN ('a', current_recipient('p'))", 9, f"{LITERALS}; {OPERAND}"),
    ("'a' LIKE 'a%'", 1, f"{LITERALS}; {OPERAND}"),
    ("current_recipient('level') >= 3", 31, f"a property is a text, and 3 is none; {QUOTES}"),
    ("TRUE = current_recipient('staff')", 1, f"a property is a text, and TRUE is none; {QUOTES}"),
    (
        "current_recipient('level') IS NULL",
        1,
        "only a column can be tested for null; leave it out: a recipient that lacks a property sees no rows anyway",
    ),
    ("'a' IS NOT NULL", 1, "only a column can be tested for null; write the column's name"),
    (
        "region = current_recipient(region)",
        28,
        (
            "there is region where the name of a property must be; write the property's name as a text: "
            "current_recipient('region')"
        ),
    ),
    (
        "region = current_recipient('')",
        28,
        (
            "there is '' where the name of a property must be; write the property's name as a text: "
            "current_recipient('region')"
        ),
    ),
    (
        "region = current_recipient('a', 'b')",
        31,
        "there is , where ) must be; current_recipient takes one name, as in current_recipient('region')",
    ),
    ("region = current_recipient", 27, "there is the end where ( must be; write current_recipient('property')"),
    (
        "upper(region) = 'EU'",
        1,
        "upper(...) is not known; there is no function but current_recipient('property'): compare columns as they are",
    ),
    ("region LIKE '%north'", 13, f"the pattern '%north' is not the beginning of a text; {PATTERN}"),
    ("region LIKE 'nor_h%'", 13, f"the pattern 'nor_h%' is not the beginning of a text; {PATTERN}"),
    ("region LIKE 'a\\%'", 13, f"the pattern 'a\\%' is not the beginning of a text; {PATTERN}"),
    ("region LIKE 'north'", 13, f"the pattern 'north' is not the beginning of a text; {PATTERN}"),
    ("region LIKE ''", 13, f"the pattern '' is not the beginning of a text; {PATTERN}"),
    ("region LIKE site", 13, f"there is site where a pattern must be; {PATTERN}"),
    ("year LIKE '20%'", 1, "year is of type integer, and LIKE is for texts; compare with >= and <, or BETWEEN"),
    (
        "region IN (site)",
        12,
        "a list after IN holds literals and properties only; write columns as comparisons joined by OR",
    ),
    ("region IN ()", 12, f"there is ) where an operand must be; {OPERAND}"),
    (
        "region IN 'a'",
        11,
        "there is 'a' where ( must be; write IN ('a', 'b') or IN current_recipient('property')",
    ),
    ("region IN ('a' 'b')", 16, "there is 'b' where ) must be; separate the items by commas and close the parenthesis"),
    ("year BETWEEN 1, 2", 15, "there is , where AND must be; write BETWEEN least AND greatest"),
    ("year IS 3", 9, "there is 3 where NULL must be; write IS NULL, IS NOT NULL or a comparison"),
    ("NOT final", 10, f"there is the end where a comparison must be; compare final {COMPARE}"),
    ("region NOT = 'a'", 12, f"there is = where a comparison must be; compare region {COMPARE}"),
    ("region ILIKE 'a%'", 8, f"there is ILIKE where a comparison must be; compare region {COMPARE}"),
    ("SELEC region", 7, f"there is region where a comparison must be; compare SELEC {COMPARE}"),
    ("year + 1 = 2", 6, f"there is + where a comparison must be; compare year {COMPARE}"),
    (
        "year = 1 OR",
        12,
        f"there is the end where an operand must be; {OPERAND}",
    ),
    (
        "in = 1",
        1,
        f"there is in where an operand must be; {OPERAND}; a column that is named in stands in `backticks`",
    ),
    ("(year = 1", 10, "there is the end where ) must be; close the parenthesis, or join conditions by AND or OR"),
    ("year = 1)", 9, f") does not belong here; {JOIN}"),
    ("year = 1 region = 'a'", 10, f"region does not belong here; {JOIN}"),
    ("region = 'a", 10, "a text has no end; end the text with another ' and write a ' within it twice"),
    ("`region = 'a'", 1, "a name has no end; end the name with another `"),
    (
        'region = "EU"',
        10,
        "'\"' has no meaning here; write texts in 'single quotes' and names of columns bare or in `backticks`",
    ),
    ("region == 'EU'", 8, "'=' has no meaning here; write =, or IS NULL to find nulls"),
    ("region <=> 'EU'", 8, "'<' has no meaning here; write =, or IS NULL to find nulls"),
    ("year * 2 = 4", 6, "'*' has no meaning here; columns are compared as they are: leave arithmetic out"),
    ("year = 1;", 9, "';' has no meaning here; a filter is one condition, as after WHERE: leave the semicolon out"),
    ("region = $1", 10, f"'$' has no meaning here; {MADE_OF}"),
    ("year > 1e5", 8, "a number cannot be read; write it as 2024 or 12.50, in 128 digits at most"),
    ("year > 1.2.3", 8, "a number cannot be read; write it as 2024 or 12.50, in 128 digits at most"),
    ("year = " + "9" * 129, 8, "a number cannot be read; write it as 2024 or 12.50, in 128 digits at most"),
    (
        "(" * 51 + "year = 1" + ")" * 51,
        51,
        "conditions stand more than 50 deep within each other; write it with fewer parentheses and NOTs",
    ),
    (
        "NOT " * 900 + "year = 1",
        201,
        "conditions stand more than 50 deep within each other; write it with fewer parentheses and NOTs",
    ),
    ("year IN (" + "1," * 600 + "1)", 1008, f"there are more than 500 columns and literals; {LIST}"),
]


def refusal(text: str, metadata: Metadata = TABLE) -> str:
    with pytest.raises(InvalidParameter) as refused:
        check(parse(text), metadata)
    return refused.value.message


@pytest.mark.parametrize(("text", "character", "message"), REFUSED, ids=[case[0][:40] for case in REFUSED])
def test_a_refusal_names_the_character_the_reason_and_the_remedy(text: str, character: int, message: str) -> None:
    assert refusal(text) == f"the partition filter is wrong at character {character}: {message}"


def test_an_empty_filter_is_refused() -> None:
    assert refusal(" \n") == "the partition filter is empty: write, for example, region = 'EU'"


def test_a_long_filter_is_refused() -> None:
    assert refusal("year = 1".ljust(4001)) == (
        "the partition filter has 4001 characters and may have 4000: keep long lists in a property of the recipients "
        "and write region IN current_recipient('regions')"
    )


def test_half_a_surrogate_pair_is_refused() -> None:
    assert refusal("region = '\ud800'") == "the partition filter is no Unicode text: it holds half of a surrogate pair"


def test_a_table_without_partition_columns_cannot_be_filtered() -> None:
    assert refusal("region = 'EU'", Metadata(TABLE.schema_string, [])) == (
        "the partition filter is wrong at character 1: region is not a partition column; the table has no partition "
        "columns: only tables that have some can be filtered by partition"
    )


@pytest.mark.parametrize("rules", [{"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, {"__COLLATIONS": {"region": "ICU.de"}}])
def test_texts_that_compare_by_other_rules_are_refused(rules: dict[str, object]) -> None:
    table = Metadata(schema(column("region", "string", **rules)), ["region"])
    assert refusal("region = 'EU'", table) == (
        "the partition filter is wrong at character 1: region is of type string by other rules, and cannot be "
        "compared exactly: char(n) and collated texts are compared by rules of their own; "
        "filter by another partition column"
    )


def test_columns_of_two_scales_are_not_compared() -> None:
    table = Metadata(schema(column("a", "decimal(10,2)"), column("b", "decimal(10,3)")), ["a", "b"])
    assert refusal("a = b", table) == (
        "the partition filter is wrong at character 5: a is of type decimal(10,2) and b of type decimal(10,3); "
        "compare columns of the same type only"
    )


def test_varchar_is_text() -> None:
    check(
        parse("region = 'EU'"),
        Metadata(schema(column("region", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)")), ["region"]),
    )


def test_names_of_two_columns_are_ambiguous() -> None:
    table = Metadata(schema(column("a", "string"), column("A", "string")), ["a", "A"])
    assert refusal("a = 'x'", table).startswith("the partition filter is wrong at character 1: the table has no column")


def test_a_schema_that_cannot_be_read_has_no_columns() -> None:
    assert "has no column region" in refusal("region = 'EU'", Metadata("{", ["region"]))


WORDS = [
    *("region", "year", "day", "at", "final", "`region`", "nope", "'EU'", "''", "2024", "-1.5", "TRUE", "null"),
    *("DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00Z'", "current_recipient('p')", "current_recipient", "'a%'"),
    *("=", "<>", "!=", "<", "<=", ">", ">=", "(", ")", ",", "-", "+", ".", ";", "'", "`", '"', "\u00e9", "\x00"),
    *("AND", "or", "NOT", "in", "IS", "NULL", "BETWEEN", "like"),
]


@settings(max_examples=tries(150), deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)))
def test_nothing_but_a_refusal_comes_out_of_any_text(text: str) -> None:
    try:
        found = parse(text)
        check(found, TABLE)
    except InvalidParameter as refused:
        assert refused.message.startswith("the partition filter ")  # noqa: PT017 -- most texts are refused, some not
    else:
        assert found.text == text
