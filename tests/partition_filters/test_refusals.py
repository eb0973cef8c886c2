"""Errors of invalid filters have the position, the problem and the remedy."""

import pytest
from deltaic.errors import InvalidParameter
from deltaic.partition_filters import check, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import tries
from partitioned_table import TABLE, TYPES, Metadata, column, schema

COLUMNS = "use a partition column: " + ", ".join([*TYPES, "weight", "ratio", "code"])
COMPARE = "with =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL; compare a boolean column with TRUE or FALSE"
OPERAND = "use a partition column, a literal or current_recipient('property')"
QUOTES = "write the literal in 'quotes', or compare the property with a column to convert its type"
LITERALS = "a comparison of two literals has the same result for every file"
PATTERN = "use a prefix that ends with %, as in LIKE 'north%', or compare with = or IN"
NULL = "a comparison with NULL is never true; use IS NULL or IS NOT NULL"
JOIN = "combine conditions with AND or OR, and check the parentheses"
LIST = "move long lists to a property of the recipients and use IN current_recipient('property')"
WITH_OFFSET = (
    "add the offset from UTC, as in TIMESTAMP '2024-12-31 12:00:00Z' or '... +01:00', "
    "or use TIMESTAMP_NTZ for a column without time zone"
)
SUPPORTED = "use columns, literals, current_recipient('property'), comparisons, AND, OR and NOT"
TIMESTAMP = "write TIMESTAMP '2024-12-31 12:00:00Z', with its offset from UTC"
TIMESTAMP_NTZ = "write TIMESTAMP_NTZ '2024-12-31 12:00:00', without an offset"

INVALID = [
    ("regoin = 'EU'", 1, f"the table has no column regoin; {COLUMNS}"),
    ("year = 1 AND reaction = 'x'", 14, f"reaction is not a partition column; {COLUMNS}"),
    ("`place.city` = 'x'", 1, f"place.city is not a partition column; {COLUMNS}"),
    (
        "place.city = 'x'",
        6,
        (
            "unexpected '.'; nested columns cannot be partition columns; write a column name with a period in "
            "`backticks`"
        ),
    ),
    (
        "weight > 1",
        1,
        ("weight has type double, and floating-point values are rounded; use another partition column"),
    ),
    (
        "ratio IS NULL",
        1,
        ("ratio has type float, and floating-point values are rounded; use another partition column"),
    ),
    (
        "code = 'x'",
        1,
        ("code has type binary, and partition values do not represent bytes reliably; use another partition column"),
    ),
    ("region = 3", 10, "region has type string, and 3 is not valid for it; write a string such as 'EU'"),
    ("region IN ('a', -3)", 17, "region has type string, and -3 is not valid for it; write a string such as 'EU'"),
    ("region = TRUE", 10, "region has type string, and TRUE is not valid for it; write a string such as 'EU'"),
    ("year = '2024'", 8, "year has type integer, and '2024' is not valid for it; write a number such as 2024"),
    (
        "amount <> DATE '2024-01-01'",
        11,
        "amount has type decimal(10,2), and DATE '2024-01-01' is not valid for it; write a number such as 12.50",
    ),
    ("final = 1", 9, "final has type boolean, and 1 is not valid for it; write TRUE or FALSE"),
    ("final = 'true'", 9, "final has type boolean, and 'true' is not valid for it; write TRUE or FALSE"),
    ("day = 20240101", 7, "day has type date, and 20240101 is not valid for it; write DATE '2024-12-31'"),
    ("day = '2024-02-30'", 7, "day has type date, and '2024-02-30' is not valid for it; write DATE '2024-12-31'"),
    (
        "at >= '2024-01-01 00:00:00'",
        7,
        f"at has type timestamp, and '2024-01-01 00:00:00' is not valid for it; {TIMESTAMP}",
    ),
    ("at >= DATE '2024-01-01'", 7, f"at has type timestamp, and DATE '2024-01-01' is not valid for it; {TIMESTAMP}"),
    (
        "clock < '2024-01-01 00:00:00Z'",
        9,
        f"clock has type timestamp_ntz, and '2024-01-01 00:00:00Z' is not valid for it; {TIMESTAMP_NTZ}",
    ),
    ("day = DATE '2024-13-01'", 12, "'2024-13-01' is not a valid date; write DATE '2024-12-31'"),
    ("at = TIMESTAMP '2024-01-01'", 16, f"'2024-01-01' is not a valid timestamp with time zone; {WITH_OFFSET}"),
    (
        "clock = TIMESTAMP_NTZ '2024-01-01 00:00:00Z'",
        23,
        (
            "'2024-01-01 00:00:00Z' is not a valid timestamp without time zone; remove the offset, as in "
            "TIMESTAMP_NTZ '2024-12-31 12:00:00', or use TIMESTAMP"
        ),
    ),
    (
        "region = year",
        10,
        "region has type string and year type integer; compare only columns of the same type",
    ),
    ("region = NULL", 10, NULL),
    ("NULL <> region", 1, NULL),
    ("region IN ('a', NULL)", 17, NULL),
    ("year BETWEEN 1 AND NULL", 20, NULL),
    ("1 = 1", 5, f"{LITERALS}; {OPERAND}"),
    ("'a' BETWEEN region AND 'b'", 24, f"{LITERALS}; {OPERAND}"),
    ("'a' IN ('a', current_recipient('p'))", 9, f"{LITERALS}; {OPERAND}"),
    ("'a' LIKE 'a%'", 1, f"{LITERALS}; {OPERAND}"),
    ("current_recipient('level') >= 3", 31, f"a property is a string, and 3 is not; {QUOTES}"),
    ("TRUE = current_recipient('staff')", 1, f"a property is a string, and TRUE is not; {QUOTES}"),
    (
        "current_recipient('level') IS NULL",
        1,
        "IS NULL requires a column; remove the condition: a recipient without the property sees no rows",
    ),
    ("'a' IS NOT NULL", 1, "IS NULL requires a column; use the name of a column"),
    (
        "region = current_recipient(region)",
        28,
        (
            "expected the name of a property instead of region; write the name in quotes, as in "
            "current_recipient('region')"
        ),
    ),
    (
        "region = current_recipient('')",
        28,
        ("expected the name of a property instead of ''; write the name in quotes, as in current_recipient('region')"),
    ),
    (
        "region = current_recipient('a', 'b')",
        31,
        "expected ) instead of ,; current_recipient has one parameter, as in current_recipient('region')",
    ),
    ("region = current_recipient", 27, "expected ( instead of the end; write current_recipient('property')"),
    (
        "upper(region) = 'EU'",
        1,
        "upper(...) is not supported; the only function is current_recipient('property'): compare columns directly",
    ),
    ("region LIKE '%north'", 13, f"the pattern '%north' is not supported; {PATTERN}"),
    ("region LIKE 'nor_h%'", 13, f"the pattern 'nor_h%' is not supported; {PATTERN}"),
    ("region LIKE 'a\\%'", 13, f"the pattern 'a\\%' is not supported; {PATTERN}"),
    ("region LIKE 'north'", 13, f"the pattern 'north' is not supported; {PATTERN}"),
    ("region LIKE ''", 13, f"the pattern '' is not supported; {PATTERN}"),
    ("region LIKE site", 13, f"expected a pattern instead of site; {PATTERN}"),
    ("year LIKE '20%'", 1, "year has type integer, and LIKE requires strings; use >= and <, or BETWEEN"),
    (
        "region IN (site)",
        12,
        "a list after IN can contain only literals and properties; for columns, combine comparisons with OR",
    ),
    ("region IN ()", 12, f"expected an operand instead of ); {OPERAND}"),
    (
        "region IN 'a'",
        11,
        "expected ( instead of 'a'; write IN ('a', 'b') or IN current_recipient('property')",
    ),
    ("region IN ('a' 'b')", 16, "expected ) instead of 'b'; separate items with commas, and close the parenthesis"),
    ("year BETWEEN 1, 2", 15, "expected AND instead of ,; write BETWEEN minimum AND maximum"),
    ("year IS 3", 9, "expected NULL instead of 3; use IS NULL, IS NOT NULL or a comparison"),
    ("NOT final", 10, f"expected a comparison instead of the end; compare final {COMPARE}"),
    ("region NOT = 'a'", 12, f"expected a comparison instead of =; compare region {COMPARE}"),
    ("region ILIKE 'a%'", 8, f"expected a comparison instead of ILIKE; compare region {COMPARE}"),
    ("SELEC region", 7, f"expected a comparison instead of region; compare SELEC {COMPARE}"),
    ("year + 1 = 2", 6, f"expected a comparison instead of +; compare year {COMPARE}"),
    (
        "year = 1 OR",
        12,
        f"expected an operand instead of the end; {OPERAND}",
    ),
    (
        "in = 1",
        1,
        f"expected an operand instead of in; {OPERAND}; write a column named in in `backticks`",
    ),
    ("(year = 1", 10, "expected ) instead of the end; close the parenthesis, or combine conditions with AND or OR"),
    ("year = 1)", 9, f"unexpected ); {JOIN}"),
    ("year = 1 region = 'a'", 10, f"unexpected region; {JOIN}"),
    ("region = 'a", 10, "the string is not terminated; end it with ' and write each ' inside the string twice"),
    ("`region = 'a'", 1, "the name is not terminated; end it with `"),
    (
        'region = "EU"',
        10,
        "unexpected '\"'; write strings in 'single quotes', and column names without quotes or in `backticks`",
    ),
    ("region == 'EU'", 8, "unexpected '='; use =, or IS NULL to find nulls"),
    ("region <=> 'EU'", 8, "unexpected '<'; use =, or IS NULL to find nulls"),
    ("year * 2 = 4", 6, "unexpected '*'; arithmetic is not supported: compare columns directly"),
    ("year = 1;", 9, "unexpected ';'; remove the semicolon: a filter is one condition, as in WHERE"),
    ("region = $1", 10, f"unexpected '$'; {SUPPORTED}"),
    ("year > 1e5", 8, "invalid number; write it as 2024 or 12.50, with at most 128 digits"),
    ("year > 1.2.3", 8, "invalid number; write it as 2024 or 12.50, with at most 128 digits"),
    ("year = " + "9" * 129, 8, "invalid number; write it as 2024 or 12.50, with at most 128 digits"),
    (
        "(" * 51 + "year = 1" + ")" * 51,
        51,
        "more than 50 nested parentheses and NOTs; simplify the filter",
    ),
    (
        "NOT " * 900 + "year = 1",
        201,
        "more than 50 nested parentheses and NOTs; simplify the filter",
    ),
    ("year IN (" + "1," * 600 + "1)", 1008, f"more than 500 columns and literals; {LIST}"),
]


def error_of(text: str, metadata: Metadata = TABLE) -> str:
    with pytest.raises(InvalidParameter) as error:
        check(parse(text), metadata)
    return error.value.message


@pytest.mark.parametrize(("text", "character", "message"), INVALID, ids=[case[0][:40] for case in INVALID])
def test_error_has_the_position_the_problem_and_the_remedy(text: str, character: int, message: str) -> None:
    assert error_of(text) == f"the partition filter is invalid at character {character}: {message}"


def test_empty_filter_is_rejected() -> None:
    assert error_of(" \n") == "the partition filter is empty: write, for example, region = 'EU'"


def test_long_filter_is_rejected() -> None:
    assert error_of("year = 1".ljust(4001)) == (
        "the partition filter has 4001 characters, and the maximum is 4000: move long lists to a property of the "
        "recipients and use region IN current_recipient('regions')"
    )


def test_unpaired_surrogate_is_rejected() -> None:
    assert error_of("region = '\ud800'") == "the partition filter contains an unpaired surrogate: use valid Unicode"


def test_table_without_partition_columns_is_rejected() -> None:
    assert error_of("region = 'EU'", Metadata(TABLE.schema_string, [])) == (
        "the partition filter is invalid at character 1: region is not a partition column; the table has no partition "
        "columns, which a filter requires"
    )


@pytest.mark.parametrize("rules", [{"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, {"__COLLATIONS": {"region": "ICU.de"}}])
def test_strings_with_special_comparison_rules_are_rejected(rules: dict[str, object]) -> None:
    table = Metadata(schema(column("region", "string", **rules)), ["region"])
    assert error_of("region = 'EU'", table) == (
        "the partition filter is invalid at character 1: region has type string by other rules, and char(n) and "
        "collated strings have special comparison rules; use another partition column"
    )


def test_decimals_with_different_scales_are_not_compared() -> None:
    table = Metadata(schema(column("a", "decimal(10,2)"), column("b", "decimal(10,3)")), ["a", "b"])
    assert error_of("a = b", table) == (
        "the partition filter is invalid at character 5: a has type decimal(10,2) and b type decimal(10,3); "
        "compare only columns of the same type"
    )


def test_varchar_is_a_string() -> None:
    check(
        parse("region = 'EU'"),
        Metadata(schema(column("region", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)")), ["region"]),
    )


def test_ambiguous_column_name_is_rejected() -> None:
    table = Metadata(schema(column("a", "string"), column("A", "string")), ["a", "A"])
    assert error_of("a = 'x'", table).startswith(
        "the partition filter is invalid at character 1: the table has no column"
    )


def test_invalid_schema_has_no_columns() -> None:
    assert "has no column region" in error_of("region = 'EU'", Metadata("{", ["region"]))


TOKENS = [
    *("region", "year", "day", "at", "final", "`region`", "nope", "'EU'", "''", "2024", "-1.5", "TRUE", "null"),
    *("DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00Z'", "current_recipient('p')", "current_recipient", "'a%'"),
    *("=", "<>", "!=", "<", "<=", ">", ">=", "(", ")", ",", "-", "+", ".", ";", "'", "`", '"', "\u00e9", "\x00"),
    *("AND", "or", "NOT", "in", "IS", "NULL", "BETWEEN", "like"),
]


@settings(max_examples=tries(150), deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join)))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        parsed = parse(text)
        check(parsed, TABLE)
    except InvalidParameter as error:
        assert error.message.startswith("the partition filter ")  # noqa: PT017 -- some texts are valid
    else:
        assert parsed.text == text
