"""Decides, for many files at once, whether bounds of a column leave room for a row that passes one test.

A test asks "may some row pass?", never "do all?": a negated test is another test, so that no answer is ever inverted.
Bounds may be wider than the values and absent; then they leave more room.
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
"""An array without nulls, one value a file, or one bool for all of them."""

_FEW: Final = 16
"""Values of an IN list up to which trying each beats a search per file."""


class Facts(msgspec.Struct, frozen=True):
    """What is known of one column in each file: nothing where `low` or `high` is None, or null.

    `low` and `high` lie on the axis of the column's type; every value that is neither null nor NaN is between them.
    """

    low: pa.Array | None
    high: pa.Array | None
    may_be_null: Verdict
    is_null: Verdict
    """Every row is null, or there is no row."""
    may_be_nan: bool


def both(left: Verdict, right: Verdict) -> Verdict:
    """Return where both hold."""
    if isinstance(left, bool):
        return right if left else False
    if isinstance(right, bool):
        return left if right else False
    return pc.and_(left, right)


def either(left: Verdict, right: Verdict) -> Verdict:
    """Return where at least one holds."""
    if isinstance(left, bool):
        return True if left else right
    if isinstance(right, bool):
        return True if right else left
    return pc.or_(left, right)


def opposite(verdict: Verdict) -> Verdict:
    """Return where it does not hold."""
    return not verdict if isinstance(verdict, bool) else pc.invert(verdict)


class Compare(msgspec.Struct, frozen=True):
    """A row's value is `<`, `<=`, `>`, `>=`, `=` or `<>` a literal; null passes none of them.

    Spark holds NaN greater than everything and equal to itself, and writers may leave NaN out of their bounds, so a
    column that may hold NaN passes every `>`, unless `no_nan`: NaN is excluded by another test of the same row.
    """

    operator: Literal["<", "<=", ">", ">=", "=", "<>"]
    literal: Interval
    no_nan: bool = False

    def may_pass(self, facts: Facts) -> Verdict:
        """Return which files may hold a row that passes."""
        low, high = _on(facts.low, self.literal.axis), _on(facts.high, self.literal.axis)
        if self.operator in {"<", "<="}:
            room = _beside(low, self.operator, self.literal.high)
        elif self.operator in {">", ">="}:
            room = _beside(high, self.operator, self.literal.low)
        elif self.operator == "=":
            room = both(_beside(low, "<=", self.literal.high), _beside(high, ">=", self.literal.low))
        else:
            room = opposite(_all_are(low, high, [self.literal.low])) if self.literal.is_point else True
        if facts.may_be_nan and not self.no_nan and self.operator in {">", ">=", "<>"}:
            room = True
        return both(room, opposite(facts.is_null))


class OneOf(msgspec.Struct, frozen=True):
    """A row's value equals one of the literals: `lows` and `highs` are their ends on `axis`, both ascending."""

    axis: Axis
    lows: tuple[Any, ...]
    highs: tuple[Any, ...]

    @classmethod
    def of(cls, literals: Sequence[Interval]) -> "OneOf":
        """Return the test for literals that share an axis and were widened by one rule, so that both ends ascend."""
        lows, highs = {literal.low for literal in literals}, {literal.high for literal in literals}
        if len(lows) != len(highs):
            return cls(literals[0].axis, (min(lows),), (max(highs),))
        return cls(literals[0].axis, tuple(sorted(lows)), tuple(sorted(highs)))

    def may_pass(self, facts: Facts) -> Verdict:
        """Return which files may hold a row that passes."""
        low, high = _on(facts.low, self.axis), _on(facts.high, self.axis)
        if len(self.lows) > _FEW and low is not None and high is not None:
            return both(self._search(low, high), opposite(facts.is_null))
        room: Verdict = False
        for begin, end in zip(self.lows, self.highs, strict=True):
            room = either(room, both(_beside(low, "<=", end), _beside(high, ">=", begin)))
        return both(room, opposite(facts.is_null))

    def _search(self, low: pa.Array, high: pa.Array) -> pa.BooleanArray:
        lows, highs, count = self.lows, self.highs, len(self.lows)

        def hit(least: Any, greatest: Any) -> bool:
            if least is None or greatest is None:
                return True
            # The first literal that does not end before the file begins: all later ones begin no sooner.
            at = bisect_left(highs, least)
            return at < count and bool(lows[at] <= greatest)

        return pa.array(map(hit, low.to_pylist(), high.to_pylist()), pa.bool_())


class NoneOf(msgspec.Struct, frozen=True):
    """A row's value is not null and differs from every one of `points` on `axis`."""

    axis: Axis
    points: tuple[Any, ...]

    def may_pass(self, facts: Facts) -> Verdict:
        """Return which files may hold a row that passes."""
        room: Verdict = True
        if not facts.may_be_nan:
            room = opposite(_all_are(_on(facts.low, self.axis), _on(facts.high, self.axis), self.points))
        return both(room, opposite(facts.is_null))


class Prefix(msgspec.Struct, frozen=True):
    """A row's string begins with `prefix`, or with `negated` does not; null passes neither."""

    prefix: str
    negated: bool = False

    def may_pass(self, facts: Facts) -> Verdict:
        """Return which files may hold a row that passes."""
        low, high = facts.low, facts.high
        if self.negated:
            # Between two strings with a prefix there are only strings with it.
            room = True if low is None or high is None else opposite(both(self._starts(low), self._starts(high)))
        else:
            cut = None if low is None else pc.utf8_slice_codeunits(low, 0, len(self.prefix))
            room = both(_beside(cut, "<=", self.prefix), _beside(high, ">=", self.prefix))
        return both(room, opposite(facts.is_null))

    def _starts(self, array: pa.Array) -> pa.BooleanArray:
        return pc.coalesce(pc.starts_with(array, pattern=self.prefix), False)


class Null(msgspec.Struct, frozen=True):
    """A row's value is null, or with `negated` is not."""

    negated: bool = False

    def may_pass(self, facts: Facts) -> Verdict:
        """Return which files may hold a row that passes."""
        return opposite(facts.is_null) if self.negated else facts.may_be_null


Test: TypeAlias = Compare | OneOf | NoneOf | Prefix | Null


def _on(bounds: pa.Array | None, axis: Axis) -> pa.Array | None:
    """Return bounds on the literal's axis: whole numbers and decimals become doubles beside a double."""
    if bounds is None or axis is not Axis.DOUBLE or pa.types.is_floating(bounds.type):
        return bounds
    return pc.cast(bounds, pa.float64(), safe=False)


def _beside(bounds: pa.Array | None, operator: Literal["<", "<=", ">", ">="], value: Any) -> Verdict:
    """Return where `bound operator value`, and where there is no bound."""
    if bounds is None:
        return True
    if not isinstance(value, (str, float)):
        step = _step(bounds.type, value, up=operator in {"<", ">="})
        if isinstance(step, bool):  # beyond what the type holds: above everything, or below
            return True if step == operator.startswith("<") else pc.is_null(bounds)
        value = step
    kernels = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    verdict = kernels[operator](bounds, pa.scalar(value, bounds.type))
    return pc.coalesce(verdict, True) if verdict.null_count else verdict


def _step(type_: pa.DataType, value: Any, *, up: bool) -> int | Decimal | bool:
    """Return the nearest number that the type holds, above or below; True or False when it is beyond either end."""
    if pa.types.is_integer(type_):
        whole: int = ceil(value) if up else floor(value)
        return whole if -INT64 <= whole < INT64 else whole > 0
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    decimal = Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_CEILING if up else ROUND_FLOOR, EXACTLY)
    limit = Decimal(1).scaleb(MAX_PRECISION - scale)
    return decimal if -limit < decimal < limit else decimal > 0


def _all_are(low: pa.Array | None, high: pa.Array | None, points: Sequence[Any]) -> Verdict:
    """Return where the bounds are one value, and it is among the points."""
    if low is None or high is None:
        return False
    if pa.types.is_integer(low.type) or pa.types.is_decimal(low.type):
        steps = [_step(low.type, point, up=True) for point in points]
        points = [
            step for step, point in zip(steps, points, strict=True) if not isinstance(step, bool) and step == point
        ]
    among = pc.is_in(low, value_set=pa.array(points, low.type))
    return pc.and_(among, pc.coalesce(pc.equal(low, high), False))
