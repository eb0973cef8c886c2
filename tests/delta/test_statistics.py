"""Test that typed statistics are converted to the same JSON as Spark writes."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltaic.delta.scan.stats_json import json_statistics
from hypothesis import given, settings
from hypothesis import strategies as st


def render(kind: pa.DataType, value: Any) -> str:
    """Return the JSON of one column's minimum."""
    stats = pa.array([{"minValues": {"c": value}}], pa.struct([("minValues", pa.struct([("c", kind)]))]))
    text = json_statistics(stats)[0].as_py()
    assert text.startswith('{"minValues":{')
    assert text.endswith("}}")
    return str(text[14:-2])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        pytest.param(pa.int64(), -(2**63), '"c":-9223372036854775808', id="long"),
        pytest.param(pa.int32(), None, "", id="null_is_left_out"),
        pytest.param(pa.string(), 'a"b\\ü\u2028', '"c":"a\\"b\\\\ü\u2028"', id="string"),
        pytest.param(pa.date32(), date(2024, 2, 29), '"c":"2024-02-29"', id="date"),
        pytest.param(pa.date32(), date(1, 1, 1), '"c":"0001-01-01"', id="first_date"),
        pytest.param(
            pa.timestamp("us", "UTC"),
            datetime(2026, 1, 1, 10, 20, 59, 999999, UTC),
            '"c":"2026-01-01T10:20:59.999Z"',
            id="timestamp_is_cut_to_milliseconds",
        ),
        pytest.param(
            pa.timestamp("us", "UTC"),
            datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC),
            '"c":"1969-12-31T23:59:59.999Z"',
            id="timestamp_before_the_epoch_is_cut_downwards",
        ),
        pytest.param(
            pa.timestamp("us"),
            datetime.fromisoformat("2026-01-01T10:20:30"),
            '"c":"2026-01-01T10:20:30.000"',
            id="timestamp_ntz",
        ),
        pytest.param(pa.decimal128(20, 18), Decimal("1.5"), '"c":1.500000000000000000', id="decimal_with_all_digits"),
        pytest.param(pa.decimal128(38, 0), Decimal(10**37), '"c":1' + "0" * 37, id="long_decimal"),
        pytest.param(pa.decimal128(10, 8), Decimal("0.00000001"), '"c":0.00000001', id="small_decimal"),
        pytest.param(pa.float64(), 1.0, '"c":1.0', id="double"),
        pytest.param(pa.float64(), -0.0, '"c":-0.0', id="minus_zero"),
        pytest.param(pa.float64(), 1e7, '"c":1.0E7', id="large_double"),
        pytest.param(pa.float64(), 9999999.5, '"c":9999999.5', id="largest_plain_double"),
        pytest.param(pa.float64(), 0.001, '"c":0.001', id="smallest_plain_double"),
        pytest.param(pa.float64(), 1.25e-5, '"c":1.25E-5', id="small_double"),
        pytest.param(pa.float64(), 1.7976931348623157e308, '"c":1.7976931348623157E308', id="largest_double"),
        pytest.param(pa.float64(), float("nan"), '"c":"NaN"', id="nan"),
        pytest.param(pa.float64(), float("-inf"), '"c":"-Infinity"', id="minus_infinity"),
        pytest.param(pa.float32(), 0.1, '"c":0.1', id="float_has_its_own_digits"),
        pytest.param(pa.bool_(), True, '"c":true', id="boolean"),
        pytest.param(pa.struct([("d", pa.int32())]), {"d": 1}, '"c":{"d":1}', id="nested"),
        pytest.param(pa.struct([("d", pa.int32())]), {"d": None}, '"c":{}', id="nested_null"),
        pytest.param(pa.binary(), b"x", "", id="binary_has_no_bounds"),
    ],
)
def test_values(kind: pa.DataType, value: Any, text: str) -> None:
    assert render(kind, value) == text


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.float64(), [0.5, None, 2.0, 1e9, -3.0], ['"c":0.5', "", '"c":2.0', '"c":1.0E9', '"c":-3.0']),
        (pa.string(), ["a", None, "b\n", 'c"'], ['"c":"a"', "", '"c":"b\\n"', '"c":"c\\""']),
        (pa.string(), ["a", "\x1f", "c"], ['"c":"a"', '"c":"\\u001f"', '"c":"c"']),
    ],
    ids=["doubles", "strings_and_null", "strings"],
)
def test_values_of_one_column_can_need_different_spelling(
    kind: pa.DataType, values: list[Any], texts: list[str]
) -> None:
    stats = pa.array([{"c": value} for value in values], pa.struct([("c", kind)]))
    for start in range(len(values)):
        assert json_statistics(stats[start:]).to_pylist() == [f"{{{text}}}" for text in texts[start:]]


def test_rows_in_which_all_fields_are_null_keep_their_place() -> None:
    stats = pa.array([{"a": 1, "b": None}, {"a": None, "b": None}, {"a": None, "b": "2"}])
    assert json_statistics(stats).to_pylist() == ['{"a":1}', "{}", '{"b":"2"}']
    assert json_statistics(stats[1:2]).to_pylist() == ["{}"]


def test_statistics_keep_sparks_order_and_null_rows() -> None:
    bounds = pa.struct([("a b", pa.int64()), ('q"', pa.string())])
    kind = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", pa.struct([("a b", pa.int64()), ('q"', pa.int64())])),
            ("tightBounds", pa.bool_()),
        ]
    )
    row = {
        "numRecords": 3,
        "minValues": {"a b": 1, 'q"': None},
        "maxValues": {"a b": 2, 'q"': "z"},
        "nullCount": {"a b": 0, 'q"': 1},
        "tightBounds": True,
    }
    assert json_statistics(pa.array([row, None], kind)).to_pylist() == [
        (
            '{"numRecords":3,"minValues":{"a b":1},"maxValues":{"a b":2,"q\\"":"z"},'
            '"nullCount":{"a b":0,"q\\"":1},"tightBounds":true}'
        ),
        None,
    ]


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_round_trips(value: float) -> None:
    assert json.loads("{" + render(pa.float64(), value) + "}") == {"c": value}


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_float_round_trips(value: float) -> None:
    text = json.loads("{" + render(pa.float32(), value) + "}")["c"]
    assert pa.scalar(text, pa.float32()).as_py() == value
