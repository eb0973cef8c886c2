"""Draw random deliveries for a dataset, and predict tables, quarantine and counts in plain Python.

This module uses neither Spark nor Delta nor our code: a row is a dictionary, and a table is a list of rows.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

MODES = ("append", "overwrite", "overwrite_partitions", "merge", "scd2")
SITES = ("oslo", "rome", "bern")
NOTES = ("", "plain", 'quo"ted', "semi;colon", "comma, here", "ünï", " padded ", "back\\slash", "NULL", "null", None)
COLUMNS = {"id": "INT", "site": "STRING", "dose": "INT", "note": "STRING", "at": "TIMESTAMP"}
MALFORMED = "arrivals: dose is not INT"
OP = "op"
"""A column with D in rows that delete their key; no table has it."""

LATER = "extra"
"""A column that a later delivery adds."""

STATES = ("valid_from", "valid_to", "is_current")
FIRST_DAY = datetime(2026, 3, 1)  # noqa: DTZ001 -- Spark's session is in UTC, and so is every time here

Row = Mapping[str, Any]
Rows = Counter[tuple[tuple[str, Any], ...]]


class Refused(Exception):
    """The delivery must be refused; the message is the reason."""


@dataclass(frozen=True)
class Expected:
    """An expectation in the file, and a function that decides which rows fail it."""

    name: str
    action: str
    fields: Mapping[str, Any]
    fails: Callable[[Row, Sequence[Row]], bool]


def expectations(random: Random, keyed: bool) -> list[Expected]:
    """Draw expectations. With keys, most of those on keys quarantine rows instead of failing the run."""

    def unknown_site(row: Row, _: Sequence[Row]) -> bool:
        return row["site"] is not None and row["site"] not in {"oslo", "rome"}

    def shared(row: Row, all_: Sequence[Row]) -> bool:
        return row["id"] is not None and sum(other_row["id"] == row["id"] for other_row in all_) > 1

    possible: list[tuple[str, dict[str, Any], Callable[[Row, Sequence[Row]], bool]]] = [
        ("given", {"expect": "not_null", "columns": ["id"]}, lambda row, _: row["id"] is None),
        ("bounded", {"expect": "range", "column": "dose", "min": 0, "max": 4},
         lambda row, _: row["dose"] is not None and not 0 <= row["dose"] <= 4),
        ("known", {"expect": "accepted_values", "column": "site", "values": ["oslo", "rome"]}, unknown_site),
        ("no_three", {"expect": "sql", "condition": "dose <> 3"}, lambda row, _: row["dose"] == 3),
        ("once", {"expect": "unique", "columns": ["id"]}, shared),
    ]  # fmt: skip
    chosen = []
    for name, fields, fails in possible:
        keeps_keys = keyed and name in {"given", "once"}
        if random.random() < (0.8 if keeps_keys else 0.35):
            action = random.choice(
                ["drop", "quarantine", "quarantine", "fail"] if not keeps_keys else ["drop", "quarantine"]
            )
            chosen.append(Expected(name, action, {"name": name, "action": action, **fields}, fails))
    return chosen


@dataclass(frozen=True)
class Delivery:
    """A delivered file, and the events of the run that reads it."""

    rows: Sequence[Row]
    malformed: frozenset[int] = frozenset()
    """Numbers of the rows whose dose is not a number in the file."""

    later: bool = False
    """Whether the file has the later column."""

    ops: bool = False
    """Whether the file has the column `op`."""

    killed: bool = False
    """Whether the run is killed and repeated with its id."""

    again: bool = False
    """Whether the completed run is repeated with its id."""


@dataclass
class Counted:
    """Expected counts of a run."""

    read: int = 0
    written: int = 0
    quarantined: int = 0
    dropped: int = 0
    unchanged: int = 0
    deleted: int = 0


@dataclass
class Story:
    """A dataset, its deliveries and the predicted tables."""

    seed: int
    mode: str
    format: str
    partitioned: bool
    evolves: bool
    expected: list[Expected]
    deliveries: list[Delivery]
    malformed: str
    """Action for rows whose dose is not a number."""

    deletes: bool = False
    """Whether rows with `op` D delete their key."""

    full: bool = False
    """Whether each delivery is a full extract, so that missing keys are deleted."""

    at_most: str | None = None
    """Limit of missing keys; None for the default."""

    table: list[dict[str, Any]] = field(default_factory=list)
    aside: list[tuple[dict[str, Any], tuple[str, ...]]] = field(default_factory=list)
    """Quarantined rows and malformed texts, with the names of the failed expectations."""

    has_later: bool = False
    written: bool = False
    """Whether the table exists."""

    @property
    def keyed(self) -> bool:
        return self.mode in {"merge", "scd2"}

    def take(self, delivery: Delivery) -> Counted:
        """Update the predicted tables; raises `Refused` and changes nothing if the run must fail."""
        if delivery.malformed and self.malformed == "fail":
            raise Refused("malformed")
        if self.written and delivery.later != self.has_later and not self.evolves:
            raise Refused("drift")
        rows = [dict(row) for number, row in enumerate(delivery.rows) if number not in delivery.malformed]
        if not delivery.later:
            rows = [{name: value for name, value in row.items() if name != LATER} for row in rows]
        if not self.deletes:
            rows = [{name: value for name, value in row.items() if name != OP} for row in rows]
        accepted, dropped, quarantined = [], 0, []
        for row in rows:
            failed = [rule for rule in self.expected if rule.fails(row, rows)]
            if any(rule.action == "fail" for rule in failed):
                raise Refused("expectation")
            reasons = tuple(rule.name for rule in failed if rule.action == "quarantine")
            if reasons:
                quarantined.append((row, reasons))
            elif failed:
                dropped += 1
            else:
                accepted.append(row)
        if self.malformed == "drop":
            dropped += len(delivery.malformed)
        else:
            lines = lines_of(delivery, self.format)
            quarantined += [({"_raw": lines[number]}, (MALFORMED,)) for number in delivery.malformed]
        counted = Counted(len(delivery.rows), len(accepted), len(quarantined), dropped)
        self.table = self._after(accepted, self._missing(accepted, rows), counted)
        self.aside += quarantined
        grows = self.written and self.evolves and self.mode != "overwrite"
        self.has_later = (self.has_later or delivery.later) if grows or not self.written else delivery.later
        self.written = True
        return counted

    def _missing(self, accepted: Sequence[Row], all_rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the table's rows whose keys a full delivery lacks. Keys of rejected rows count as present."""
        if not (self.full and self.written):
            return []
        current = [row for row in self.table if row.get("is_current", True)]
        given_ids = {row["id"] for row in all_rows}
        missing = [row for row in current if row["id"] not in given_ids]
        limit, unit = (self.at_most or "5 %").split()
        if len(missing) > int(limit) * (len(current) / 100 if unit == "%" else 1):
            raise Refused("missing")
        if missing and not accepted:
            raise Refused("empty")
        if self.mode == "scd2" and any(row["valid_from"] >= max(item["at"] for item in accepted) for row in missing):
            raise Refused("older")
        return missing

    def _after(self, accepted: list[dict[str, Any]], missing: Sequence[Row], counted: Counted) -> list[dict[str, Any]]:
        if self.keyed:
            ids = [row["id"] for row in accepted]
            if None in ids or len(set(ids)) < len(ids):
                raise Refused("keys")
        if not self.written:
            counted.unchanged = sum(map(_gone, accepted))
            counted.written -= counted.unchanged
        match self.mode:
            case "append":
                return [*self.table, *accepted]
            case "overwrite":
                return accepted
            case "overwrite_partitions":
                replaced = {row["site"] for row in accepted}
                return [row for row in self.table if row["site"] not in replaced] + accepted
            case "merge":
                return self._merged(accepted, missing, counted)
            case _:
                return self._states(accepted, missing, counted)

    def _merged(self, accepted: list[dict[str, Any]], missing: Sequence[Row], counted: Counted) -> list[dict[str, Any]]:
        counted.deleted += len(missing)
        deleted_ids = {row["id"] for row in missing}
        current = {row["id"]: row for row in self.table if row["id"] not in deleted_ids}
        for row in accepted:
            before = current.get(row["id"])
            if _gone(row):
                self._count_gone(counted, before)
                current.pop(row["id"], None)
                continue
            row.pop(OP, None)
            if before is not None and all(before.get(name) == value for name, value in row.items()):
                counted.written -= 1
                counted.unchanged += 1
            current[row["id"]] = {**(before or {}), **row}
        return list(current.values())

    def _states(self, accepted: list[dict[str, Any]], missing: Sequence[Row], counted: Counted) -> list[dict[str, Any]]:
        counted.deleted += len(missing)
        current = {row["id"]: row for row in self.table if row["is_current"]}
        past = sorted((row for row in self.table if not row["is_current"]), key=lambda row: row["valid_to"])
        last = {row["id"]: row["valid_to"] for row in past}
        ended_states, new_states = [(row, max(item["at"] for item in accepted)) for row in missing], []
        for row in accepted:
            before = current.get(row["id"])
            if _gone(row):
                self._count_gone(counted, before)
                if before is not None:
                    if row["at"] <= before["valid_from"]:
                        raise Refused("late")
                    ended_states.append((before, row["at"]))
                continue
            if (self.deletes or self.full) and before is None and row["id"] in last and row["at"] < last[row["id"]]:
                raise Refused("late")
            row.pop(OP, None)
            compared = [name for name in row if name not in {"id", "at"}]
            if before is not None and all(before.get(name) == row[name] for name in compared):
                counted.written -= 1
                counted.unchanged += 1
                continue
            if before is not None:
                if row["at"] <= before["valid_from"]:
                    raise Refused("late")
                ended_states.append((before, row["at"]))
            new_states.append({**row, "valid_from": row["at"], "valid_to": None, "is_current": True})
        over = {id(before): until for before, until in ended_states}
        states = [
            {**row, "valid_to": over[id(row)], "is_current": False} if id(row) in over else row for row in self.table
        ]
        return states + new_states

    def _count_gone(self, counted: Counted, before: Row | None) -> None:
        if not self.written:
            return
        counted.written -= 1
        if before is None:
            counted.unchanged += 1
        else:
            counted.deleted += 1

    def __str__(self) -> str:
        rules = [f"{rule.name}:{rule.action}" for rule in self.expected]
        return (
            f"seed {self.seed}: {self.mode} of {self.format}, "
            f"partitioned {self.partitioned}, evolves {self.evolves}, expects {rules}, malformed {self.malformed}, "
            f"deletes {self.deletes}, full {self.full and self.at_most}"
        )


def story(seed: int, *, mode: str | None = None) -> Story:
    """Draw a story from a seed."""
    random = Random(seed)  # noqa: S311 -- a test's
    mode = mode or random.choice(MODES)
    keyed = mode in {"merge", "scd2"}
    drawn_story = Story(
        seed=seed,
        mode=mode,
        format=random.choice(["csv", "json"]),
        partitioned=mode == "overwrite_partitions" or random.random() < 0.6,
        evolves=random.random() < 0.5,
        expected=expectations(random, keyed),
        deliveries=[],
        malformed=random.choice(["fail", "quarantine", "drop"]),
        deletes=keyed and Random(f"deletes {seed}").random() < 0.6,  # noqa: S311 -- a test's
    )
    drawn = Random(f"full {seed}")  # noqa: S311 -- a test's
    if keyed and drawn.random() < 0.5:
        drawn_story.full, drawn_story.at_most = True, drawn.choice(["100 %", "100 %", "60 %", "4 rows", None])
        drawn_story.malformed = "fail"  # otherwise the keys of malformed rows are unknown
    for delivery in _deliveries(random, drawn_story):
        drawn_story.deliveries.append(replace(delivery, malformed=frozenset()) if drawn_story.full else delivery)
    return drawn_story


def _deliveries(random: Random, story: Story) -> Iterator[Delivery]:
    before: list[dict[str, Any]] = []
    later = False
    for day in range(random.randint(3, 5)):
        late = story.mode == "scd2" and day > 1 and random.random() < 0.2
        at = FIRST_DAY + timedelta(days=1 if late else day + 1)
        if before and random.random() < 0.2:
            rows = [dict(row) for row in before]  # a repeated delivery
        else:
            rows = [_row(random, at, story) for _ in range(random.randint(0 if day else 1, 12))]
            rows += [dict(row) for row in before if random.random() < 0.4]
            if story.keyed and random.random() < 0.8:
                rows = list({row["id"]: row for row in rows if row["id"] is not None}.values())
        random.shuffle(rows)
        before = rows
        later = later or (day > 0 and random.random() < 0.15)
        broken = {number for number in range(len(rows)) if random.random() < 0.2} if random.random() < 0.5 else set()
        yield Delivery(rows, frozenset(broken), later, story.deletes, random.random() < 0.25, random.random() < 0.2)


def _gone(row: Row) -> bool:
    return bool(row.get(OP) == "D")


def _row(random: Random, at: datetime, story: Story) -> dict[str, Any]:
    row = {
        "id": None if random.random() < 0.03 else random.randint(0, 15),
        "site": random.choice(SITES) if random.random() < 0.95 or story.partitioned else None,
        "dose": None
        if random.random() < 0.1
        else random.choice([0, 1, 2, 3, 4, 5] if random.random() < 0.5 else [1, 2]),
        "note": random.choice(NOTES),
        "at": at,
    }
    row = {**row, LATER: random.choice([None, 7, 8])}
    return {**row, OP: random.choice(["U", "U", None, "D"])} if story.deletes else row


def schema_of(delivery: Delivery) -> str:
    """Return the schema for the dataset file."""
    columns = {**COLUMNS, **({LATER: "INT"} if delivery.later else {}), **({OP: "STRING"} if delivery.ops else {})}
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def write_file(delivery: Delivery, format_: str, file: Path) -> dict[str, Any]:
    """Write a delivery to a file and return the options for reading it."""
    header = [";".join(_names(delivery))] if format_ == "csv" else []
    lines = [*header, *lines_of(delivery, format_)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if format_ == "json":
        return {}
    assert len(list(csv.reader(io.StringIO("\n".join(lines)), delimiter=";"))) == len(delivery.rows) + 1
    return {"sep": ";"}


def lines_of(delivery: Delivery, format_: str) -> list[str]:
    """Return the lines of a delivery's file."""
    names, lines = _names(delivery), []
    for number, row in enumerate(delivery.rows):
        broken = number in delivery.malformed
        if format_ == "json":
            lines.append(json.dumps(_json(row, names, broken)))
        else:
            lines.append(";".join(_csv(name, row[name], broken, quoted=number % 2 == 0) for name in names))
    return lines


def _names(delivery: Delivery) -> list[str]:
    return [*COLUMNS, *([LATER] if delivery.later else []), *([OP] if delivery.ops else [])]


def _json(row: Row, names: Iterable[str], broken: bool) -> dict[str, Any]:
    values = {name: str(row[name]) if isinstance(row[name], datetime) else row[name] for name in names}
    return {**values, "dose": "1.5x"} if broken else values


def _csv(name: str, value: Any, broken: bool, *, quoted: bool) -> str:
    """Return a value as CSV. An empty field is null; so is a quoted empty text, except in text columns."""
    if name == "dose" and broken:
        return "1.5x"
    if value is None:
        return '""' if quoted and COLUMNS.get(name) != "STRING" and name != OP else ""
    if not isinstance(value, str):
        return str(value)
    return '"' + value.replace('"', '""') + '"'


def counted(rows: Iterable[Row]) -> Rows:
    """Return rows as a multiset without null values."""
    return Counter(tuple(sorted((name, value) for name, value in row.items() if value is not None)) for row in rows)
