"""The steps of a backfill: the values that a date or a timestamp takes one after the other, each with a run id."""

import hashlib
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from deltaic.errors import InvalidParameter

from deltaic_datasets.file.dataset_model import Dataset
from deltaic_datasets.file.file_checks import WrongFile, check, dataset_of
from deltaic_datasets.file.variable_binding import RUN_DATE
from deltaic_datasets.file.variable_values import Kind, plain, value_of

MOST_STEPS = 10_000
LONGEST_RUN_ID = 64
"""As the function takes it that starts jobs on EMR Serverless."""

FOLLOWING = frozenset({"overwrite", "merge", "scd2"})
"""Modes in which a later step's rows stand above an earlier one's, so that steps are written in their order."""


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a backfill."""

    variables: Mapping[str, str]
    value: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Backfill:
    """What is to be run."""

    dataset: Dataset
    steps: list[Step]

    @property
    def following(self) -> bool:
        """Whether a step waits for the one before, and none begins behind one that failed."""
        return self.dataset.write.mode in FOLLOWING


def backfill_of(  # noqa: PLR0913 -- a file, its variables, and the way through time
    text: str,
    file: str,
    given: Mapping[str, str],
    *,
    first: str,
    last: str,
    unit: str,
    variable: str = "",
    named: str = "",
) -> Backfill:
    """Return the steps from `first` to `last`, both among them, or as far as whole steps lead.

    `named` is what run ids begin with; the dataset's name if empty. Raises WrongFile, and InvalidParameter for a
    variable that is none of a time, and for values that are none of it.
    """
    checked = check(text)
    if checked.dataset is None or checked.document is None:
        raise WrongFile(file, checked.mistakes)
    dataset = checked.dataset
    if dataset.stream is not None:
        raise InvalidParameter(f"{file} follows its source, which remembers by itself what was read")
    if dataset.marked:
        raise InvalidParameter(
            f"{file} reads what lies above a watermark, and a backfill what lies below: give it a file without one"
        )
    name, kind = _variable(dataset, variable, used=RUN_DATE in checked.document.used)
    if name in given:
        raise InvalidParameter(f"--set {name} is given a value for each step: leave it out")
    values = [plain(value) for value in _values(kind, first, last, unit)]
    own = f"-{hashlib.sha256(repr(sorted(given.items())).encode()).hexdigest()[:8]}" if given else ""
    steps = [Step({**given, name: value}, value, _run_id(f"{named or dataset.name}{own}-{value}")) for value in values]
    return Backfill(dataset_of(text, file, steps[0].variables)[0], steps)


def _variable(dataset: Dataset, named: str, *, used: bool) -> tuple[str, Kind]:
    times: dict[str, Kind] = {
        name: one.type for name, one in dataset.variables.items() if one.type in {"date", "timestamp"}
    }
    if used or named == RUN_DATE:
        times.setdefault(RUN_DATE, "date")
    if named:
        if named not in times:
            told = ", ".join(times) or "none"
            raise InvalidParameter(f"--variable {named} is no date or timestamp of the dataset, which are: {told}")
        return named, times[named]
    own = [name for name in times if name != RUN_DATE] or list(times)
    if len(own) != 1:
        told = ", ".join(own) or "none: declare one, such as `variables: {day: {type: date}}`"
        raise InvalidParameter(f"say by --variable which is stepped through; dates and timestamps are {told}")
    return own[0], times[own[0]]


def _values(kind: Kind, first: str, last: str, unit: str) -> Iterator[date]:
    bounds: list[date] = []
    for option, text in (("--from", first), ("--to", last)):
        try:
            bounds.append(value_of(kind, text))  # type: ignore[arg-type]
        except ValueError as wrong:
            raise InvalidParameter(f"{option} {wrong}") from None
    if bounds[0] > bounds[1]:
        raise InvalidParameter(f"--from {first} is after --to {last}")
    for number in range(MOST_STEPS + 1):
        value = _moved(bounds[0], unit, number)
        if value is None or value > bounds[1]:
            return
        if number == MOST_STEPS:
            raise InvalidParameter(f"these are more than {MOST_STEPS:,} steps: take them in parts")
        yield value


def _moved(start: date, unit: str, number: int) -> date | None:
    """Return the moment so many steps later; of a month that is too short its last day, None behind the last year."""
    try:
        if unit != "month":
            return start + timedelta(**{f"{unit}s": number})
        months = start.year * 12 + start.month - 1 + number
        year, month = months // 12, months % 12 + 1
        return start.replace(year=year, month=month, day=min(start.day, monthrange(year, month)[1]))
    except (OverflowError, ValueError):
        return None


def _run_id(text: str) -> str:
    """Return a run id that every job takes: a long one is cut, and made unique."""
    known = text.lstrip("_")
    if len(known) <= LONGEST_RUN_ID:
        return known
    return f"{known[: LONGEST_RUN_ID - 17]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
