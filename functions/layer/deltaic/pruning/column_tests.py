"""Test a column's minimum and maximum in each file: may the file contain a row that passes?

Each test asks whether some row may pass, never whether all do. A negated test is another test, so that no result is
inverted. Bounds can be wider than the values, or missing; then more files pass.
"""

from bisect import bisect_left
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import ceil, floor
from typing import Any, Final, Literal, TypeAlias

import msgspec
import pyarrow as pa

from deltaic import compute as pc
from deltaic.pruning.intervals import Interval
from deltaic.pruning.values import EXACTLY, INT64, MAX_PRECISION, Axis

Verdict: TypeAlias = pa.BooleanArray | bool
"""An array without nulls with one value per file, or one bool for all files."""

_MAX_TRIED: Final = 16
"""Up to this number of IN values, testing each is faster than a binary search per file."""


class Facts(msgspec.Struct, frozen=True):
    """Facts about one column, with one value per file; a null bound is unknown.

    `low` and `high` have the Axis of the column's type; all values other than null and NaN are between them.
    """

    low: pa.Array | None
    high: pa.Array | None
    may_be_null: Verdict
    is_null: Verdict
    """Whether every row is null, or there is no row."""
    may_be_nan: bool


def both(left: Verdict, right: Verdict) -> Verdict:
    """Combine verdicts with AND."""
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return pc.and_(left, right)


def either(left: Verdict, right: Verdict) -> Verdict:
    """Combine verdicts with OR."""
    if isinstance(left, bool):
        return True if left else right
    if isinstance(right, bool):
        return True if right else left
    return pc.or_(left, right)


def opposite(verdict: Verdict) -> Verdict:
    """Negate a verdict."""
    return not verdict if isinstance(verdict, bool) else pc.invert(verdict)


class Compare(msgspec.Struct, frozen=True):
    """Test whether `value operator literal` is true; null never passes.

    Spark orders NaN above all numbers and equal to itself, and writers can omit NaN from bounds. So a column that may
    contain NaN passes every `>`, unless `no_nan` says that another test of the same row excludes NaN.
    """

    operator: Literal["<", "<=", ">", ">=", "=", "<>"]
    literal: Interval
    no_nan: bool = False

    def may_pass(self, facts: Facts) -> Verdict:
        """Return for each file whether it may contain a row that passes the test."""
        low, high = _to_axis(facts.low, self.literal.axis), _to_axis(facts.high, self.literal.axis)
        if self.operator in {"<", "<="}:
            verdict = _compare_bounds(low, self.operator, self.literal.high)
        elif self.operator in {">", ">="}:
            verdict = _compare_bounds(high, self.operator, self.literal.low)
        elif self.operator == "=":
            verdict = both(_compare_bounds(low, "<=", self.literal.high), _compare_bounds(high, ">=", self.literal.low))
        else:
            verdict = opposite(_are_all_among(low, high, [self.literal.low])) if self.literal.is_point else True
        if facts.may_be_nan and not self.no_nan and self.operator in {">", ">=", "<>"}:
            verdict = True
        return both(verdict, opposite(facts.is_null))


class OneOf(msgspec.Struct, frozen=True):
    """Test whether the value is in one of the intervals with ascending `lows` and `highs`."""

    axis: Axis
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]

    @classmethod
    def of(cls, literals: Sequence[Interval]) -> "OneOf":
        """Return the test for literals with the same axis whose intervals have the same width."""
        lows, highs = {literal.low for literal in literals}, {literal.high for literal in literals}
        if len(lows) != len(highs):
            return cls(literals[0].axis, (min(lows),), (max(highs),))
        return cls(literals[0].axis, tuple(sorted(lows)), tuple(sorted(highs)))

    def may_pass(self, facts: Facts) -> Verdict:
        """Return for each file whether it may contain a row that passes the test."""
        low, high = _to_axis(facts.low, self.axis), _to_axis(facts.high, self.axis)
        if len(self.lows) > _MAX_TRIED and low is not None and high is not None:
            return both(self._search(low, high), opposite(facts.is_null))
        verdict: Verdict = False
        for begin, end in zip(self.lows, self.highs, strict=True):
            verdict = either(verdict, both(_compare_bounds(low, "<=", end), _compare_bounds(high, ">=", begin)))
        return both(verdict, opposite(facts.is_null))

    def _search(self, low: pa.Array, high: pa.Array) -> pa.BooleanArray:
        lows, highs, count = self.lows, self.highs, len(self.lows)

        def overlaps(least: Any, greatest: Any) -> bool:
            if least is None or greatest is None:
                return True
            # The first literal that does not end below the file's minimum; all later ones have greater ends.
            index = bisect_left(highs, least)
            return index < count and bool(lows[index] <= greatest)

        return pa.array(map(overlaps, low.to_pylist(), high.to_pylist()), pa.bool_())


class NoneOf(msgspec.Struct, frozen=True):
    """Test whether the value is not null and differs from each of `points`, compared on `axis`."""

    axis: Axis
    points: tuple[Any, ...]

    def may_pass(self, facts: Facts) -> Verdict:
        """Return for each file whether it may contain a row that passes the test."""
        verdict: Verdict = True
        if not facts.may_be_nan:
            low, high = _to_axis(facts.low, self.axis), _to_axis(facts.high, self.axis)
            verdict = opposite(_are_all_among(low, high, self.points))
        return both(verdict, opposite(facts.is_null))


class Prefix(msgspec.Struct, frozen=True):
    """Test whether a string starts with `prefix`, or if `negated`, does not start with it; null never passes."""

    prefix: str
    negated: bool = False

    def may_pass(self, facts: Facts) -> Verdict:
        """Return for each file whether it may contain a row that passes the test."""
        low, high = facts.low, facts.high
        if self.negated:
            # All strings between two strings with a prefix have that prefix.
            verdict = True if low is None or high is None else opposite(both(self._starts(low), self._starts(high)))
        else:
            cut = None if low is None else pc.utf8_slice_codeunits(low, 0, len(self.prefix))
            verdict = both(_compare_bounds(cut, "<=", self.prefix), _compare_bounds(high, ">=", self.prefix))
        return both(verdict, opposite(facts.is_null))

    def _starts(self, array: pa.Array) -> pa.BooleanArray:
        return pc.coalesce(pc.starts_with(array, pattern=self.prefix), False)


class Null(msgspec.Struct, frozen=True):
    """Test whether the value is null, or if `negated`, is not null."""

    negated: bool = False

    def may_pass(self, facts: Facts) -> Verdict:
        """Return for each file whether it may contain a row that passes the test."""
        return opposite(facts.is_null) if self.negated else facts.may_be_null


Test: TypeAlias = Compare | OneOf | NoneOf | Prefix | Null


def _to_axis(bounds: pa.Array | None, axis: Axis) -> pa.Array | None:
    """Convert bounds to the literal's Axis: for a double, integers and decimals become doubles."""
    if bounds is None or axis is not Axis.DOUBLE or pa.types.is_floating(bounds.type):
        return bounds
    return pc.cast(bounds, pa.float64(), safe=False)


def _compare_bounds(bounds: pa.Array | None, operator: Literal["<", "<=", ">", ">="], value: Any) -> Verdict:
    """Return for each file whether `bound operator value` is true, or the bound is missing."""
    if bounds is None:
        return True
    if not isinstance(value, (str, float)):
        step = _round_to_type(bounds.type, value, up=operator in {"<", ">="})
        if isinstance(step, bool):  # outside the type's range
            return True if step == operator.startswith("<") else pc.is_null(bounds)
        value = step
    kernels = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    verdict = kernels[operator](bounds, pa.scalar(value, bounds.type))
    return pc.coalesce(verdict, True) if verdict.null_count else verdict


def _round_to_type(type_: pa.DataType, value: Any, *, up: bool) -> int | Decimal | bool:
    """Round a number to an integer or decimal type; True if above the type's range, False if below."""
    if pa.types.is_integer(type_):
        rounded: int = ceil(value) if up else floor(value)
        return rounded if -INT64 <= rounded < INT64 else rounded > 0
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    decimal = Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_CEILING if up else ROUND_FLOOR, EXACTLY)
    limit = Decimal(1).scaleb(MAX_PRECISION - scale)
    return decimal if -limit < decimal < limit else decimal > 0


def _are_all_among(low: pa.Array | None, high: pa.Array | None, points: Sequence[Any]) -> Verdict:
    """Return for each file whether both bounds are the same value, and this value is one of `points`."""
    if low is None or high is None:
        return False
    if pa.types.is_integer(low.type) or pa.types.is_decimal(low.type):
        steps = [_round_to_type(low.type, point, up=True) for point in points]
        points = [
            step for step, point in zip(steps, points, strict=True) if not isinstance(step, bool) and step == point
        ]
    matches = pc.is_in(low, value_set=pa.array(points, low.type))
    return pc.and_(matches, pc.coalesce(pc.equal(low, high), False))
