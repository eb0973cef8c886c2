"""Compute the steps of a backfill: consecutive dates or timestamps, each with a run id."""

import hashlib
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from deltaic.errors import InvalidParameter

from deltaic_datasets.file.dataset_model import Dataset
from deltaic_datasets.file.file_checks import WrongFile, check, dataset_of
from deltaic_datasets.file.variable_binding import RUN_DATE
from deltaic_datasets.file.variable_values import Kind, parse_value, to_text

MOST_STEPS = 10_000
LONGEST_RUN_ID = 64
"""Maximum characters of a run id, which the Lambda function that starts jobs on EMR Serverless accepts."""

ORDERED_MODES = frozenset({"overwrite", "merge", "scd2"})
"""Write modes in which later rows replace earlier ones, so that steps must run in order."""


@dataclass(frozen=True, slots=True)
class BackfillStep:
    """A run of a backfill, for one date or timestamp."""

    variables: Mapping[str, str]
    value: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Backfill:
    """A dataset, and the steps for which it is run."""

    dataset: Dataset
    steps: list[BackfillStep]

    @property
    def ordered(self) -> bool:
        """True if steps must run in order, so that no further step starts after a failed one."""
        return self.dataset.write.mode in ORDERED_MODES


def backfill_of(  # noqa: PLR0913 -- a file, its variables and the options of a period
    text: str,
    file: str,
    set_values: Mapping[str, str],
    *,
    first: str,
    last: str,
    unit: str,
    variable: str = "",
    run_id_prefix: str = "",
) -> Backfill:
    """Return the backfill of a dataset file's text with a step for each date or timestamp from `first` to `last`.

    `run_id_prefix` defaults to the dataset's name. Raises WrongFile for errors in the file, and InvalidParameter for
    invalid values or a variable that is not a date or timestamp.
    """
    checked = check(text)
    if checked.dataset is None or checked.document is None:
        raise WrongFile(file, checked.mistakes)
    dataset = checked.dataset
    if dataset.stream is not None:
        raise InvalidParameter(f"{file} has a stream, which a backfill cannot run: use a file without a stream")
    if dataset.has_watermark:
        raise InvalidParameter(f"{file} has a watermark, which a backfill cannot use: use a file without a watermark")
    name, kind = _variable(dataset, variable, used=RUN_DATE in checked.document.used)
    if name in set_values:
        raise InvalidParameter(f"--set {name} is not allowed, because each step sets {name}: leave it out")
    values = [to_text(value) for value in _values(kind, first, last, unit)]
    digest = f"-{hashlib.sha256(repr(sorted(set_values.items())).encode()).hexdigest()[:8]}" if set_values else ""
    prefix = f"{run_id_prefix or dataset.name}{digest}"
    steps = [BackfillStep({**set_values, name: value}, value, _run_id(f"{prefix}-{value}")) for value in values]
    return Backfill(dataset_of(text, file, steps[0].variables)[0], steps)


def _variable(dataset: Dataset, option: str, *, used: bool) -> tuple[str, Kind]:
    times: dict[str, Kind] = {
        name: variable.type for name, variable in dataset.variables.items() if variable.type in {"date", "timestamp"}
    }
    if used or option == RUN_DATE:
        times.setdefault(RUN_DATE, "date")
    if option:
        if option not in times:
            names = ", ".join(times) or "none"
            raise InvalidParameter(f"--variable {option} is not a date or timestamp variable: choose from {names}")
        return option, times[option]
    candidates = [name for name in times if name != RUN_DATE] or list(times)
    if len(candidates) != 1:
        names = ", ".join(candidates) or "none: declare one, such as `variables: {day: {type: date}}`"
        raise InvalidParameter(f"use --variable with a date or timestamp variable of the dataset: choose from {names}")
    return candidates[0], times[candidates[0]]


def _values(kind: Kind, first: str, last: str, unit: str) -> Iterator[date]:
    bounds: list[date] = []
    for option, text in (("--from", first), ("--to", last)):
        try:
            bounds.append(parse_value(kind, text))  # type: ignore[arg-type]
        except ValueError as wrong:
            raise InvalidParameter(f"{option} {wrong}") from None
    if bounds[0] > bounds[1]:
        raise InvalidParameter(f"--from {first} is after --to {last}")
    for number in range(MOST_STEPS + 1):
        value = _shift(bounds[0], unit, number)
        if value is None or value > bounds[1]:
            return
        if number == MOST_STEPS:
            raise InvalidParameter(f"the period has more than {MOST_STEPS:,} steps: split it into several commands")
        yield value


def _shift(start: date, unit: str, number: int) -> date | None:
    """Return the date `number` units after `start` (at most the last day of its month); None after the year 9999."""
    try:
        if unit != "month":
            return start + timedelta(**{f"{unit}s": number})
        months = start.year * 12 + start.month - 1 + number
        year, month = months // 12, months % 12 + 1
        return start.replace(year=year, month=month, day=min(start.day, monthrange(year, month)[1]))
    except (OverflowError, ValueError):
        return None


def _run_id(text: str) -> str:
    stripped = text.lstrip("_")
    if len(stripped) <= LONGEST_RUN_ID:
        return stripped
    return f"{stripped[: LONGEST_RUN_ID - 17]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
