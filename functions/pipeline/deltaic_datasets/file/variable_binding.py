"""Replace `{{ name }}` in the paths, queries and conditions of a dataset file by the variable's value.

In SQL a placeholder must be a separate token according to sqlglot. If Spark's parser disagrees with sqlglot, the query
fails. A value cannot inject SQL, because no part of its literal is interpreted as SQL (`variable_values`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaic_terminal.document import Document, Mistake, Path
from deltaic_terminal.nearest import did_you_mean

from deltaic_datasets.file.variable_values import EXAMPLES, Kind, Value, literal, parse_value, to_text

RUN_DATE = "run_date"
"""Variable that every dataset has: the day for which a schedule starts the run (the exact time, if a timestamp)."""

_PLACEHOLDER = re.compile(r"\{\{([^{}\n]*)\}\}")
_REFERENCE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?::\s*(\S+)\s*)?")
_DATE_FORMAT = re.compile(r"(?:%[YmdHMS]|[\w=/-]|\.(?!\.))+")
_SEGMENT = re.compile(r"[\w=+@](?:[\w=+@ -]|\.(?!\.))*(?<![. ])")
"""Matches one segment of a path: without separator, URL scheme, glob characters and `..`."""


@dataclass(frozen=True, slots=True)
class BoundContent:
    """Content of a dataset file in which the values of variables have replaced the placeholders."""

    content: Any
    mistakes: list[Mistake] = field(default_factory=list)
    values: Mapping[str, Value] = field(default_factory=dict)
    used: frozenset[str] = frozenset()


def bind(document: Document, set_values: Mapping[str, str] | None) -> BoundContent:
    """Replace placeholders by values of variables. Report missing and invalid values, and use example values instead.

    `set_values` maps names to strings from `--set`. None means that no run follows: a missing value is only a warning.
    """
    content = document.value if isinstance(document.value, dict) else {}
    kinds = _variable_types(content)
    values, mistakes = _variable_values(document, content, kinds, set_values)
    binding = _Binding(document, kinds, values, declared="variables" in content)
    return BoundContent(binding.bind((), content), [*mistakes, *binding.mistakes], values, frozenset(binding.used))


def _variable_types(content: Mapping[Any, Any]) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {RUN_DATE: "date"}
    for name, declaration in _declarations(content).items():
        kind = declaration.get("type") if isinstance(declaration, dict) else None
        if isinstance(kind, str) and kind in EXAMPLES:
            kinds[str(name)] = cast("Kind", kind)
    return kinds


def _declarations(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    declarations = content.get("variables")
    return declarations if isinstance(declarations, dict) else {}


def _variable_values(
    document: Document, content: Mapping[Any, Any], kinds: Mapping[str, Kind], set_values: Mapping[str, str] | None
) -> tuple[dict[str, Value], list[Mistake]]:
    values: dict[str, Value] = {}
    mistakes: list[Mistake] = []

    def report(path: Path, message: str, *, doubtful: bool = False) -> None:
        position = document.position(path)
        mistakes.append(Mistake(position.line, position.field, message, doubtful))

    for name in set_values or ():
        if name not in kinds:
            report(("variables",), f"has no '{name}', which --set sets{did_you_mean(name, kinds)}")
    for name, kind in kinds.items():
        path = ("variables", name)
        default = _declarations(content)[name].get("default") if name in _declarations(content) else None
        if name == RUN_DATE and kind not in {"date", "timestamp"}:
            report((*path, "type"), f"has type {kind}, but is the schedule's day: use type date or timestamp")
        try:
            if name in (set_values or {}):
                text = (set_values or {})[name]
                text = _scheduled_day(text, content) if (name, kind) == (RUN_DATE, "date") else text
                values[name] = parse_value(kind, text)
            elif default is not None:
                values[name] = parse_value(kind, default)
            elif name == RUN_DATE:
                now = datetime.now(UTC).replace(microsecond=0)
                values[name] = now if kind == "timestamp" else now.date()
            else:
                needed = f"--set {name}={to_text(EXAMPLES[kind])}"
                report(path, f"has no default: a run needs {needed}", doubtful=set_values is None)
        except ValueError as wrong:
            report(path if name in (set_values or {}) else (*path, "default"), str(wrong))
    return values, mistakes


def _scheduled_day(text: str, content: Mapping[Any, Any]) -> str:
    schedule = content.get("schedule")
    zone = schedule.get("timezone") if isinstance(schedule, dict) else None
    try:
        instant = datetime.fromisoformat(text)
        return text if instant.tzinfo is None else f"{instant.astimezone(ZoneInfo(str(zone or 'UTC'))):%Y-%m-%d}"
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return text


class _Binding:
    def __init__(
        self, document: Document, kinds: Mapping[str, Kind], values: Mapping[str, Value], *, declared: bool
    ) -> None:
        self._document, self._kinds, self._declared = document, kinds, declared
        self._values = {**{name: EXAMPLES[kind] for name, kind in kinds.items()}, **values}
        self.mistakes: list[Mistake] = []
        self.used: set[str] = set()

    def bind(self, path: tuple[str | int, ...], value: Any) -> Any:
        """Return the value at a path of the file, with the placeholders in it replaced."""
        match value:
            case dict():
                return {name: self.bind((*path, name), each) for name, each in value.items()}
            case list():
                return [self.bind((*path, number), each) for number, each in enumerate(value)]
            case str() if "{{" in value:
                return self._bind_text(path, value)
            case _:
                return value

    def _bind_text(self, path: tuple[str | int, ...], text: str) -> str:
        match path:
            case ("sources", _, "paths", _) | ("sources", _, "path") | ("target", "location") | ("quarantine",):
                return self._bind_path(path, text)
            case ("stream", "checkpoint"):
                return self._bind_path(path, text)
            case ("steps", _, "sql") | ("expectations", _, "condition") | ("write", "where" | "delete_when"):
                return self._bind_sql(path, text, dialect="spark")
            case ("sources", _, "query"):
                return self._bind_sql(path, text, dialect="postgres")
        for match in _PLACEHOLDER.finditer(text) if self._declared and path[:1] != ("variables",) else ():
            if match[1].strip() in self._kinds:
                self._report(path, text, match, "variables are only for paths, queries and conditions")
        return text

    def _bind_path(self, path: Path, text: str) -> str:
        head = _PLACEHOLDER.sub("\0", text).partition("/")[0]
        problem = "a variable cannot be part of the scheme" if "\0" in head and ":" in head else ""

        def segment(name: str, date_format: str | None) -> str:
            value = self._values[name]
            if date_format is not None:
                if not isinstance(value, date) or not _DATE_FORMAT.fullmatch(date_format):
                    raise ValueError(f"invalid format '{date_format}': write dates and timestamps as in %Y/%m/%d")
                return value.strftime(date_format)
            if isinstance(value, datetime):
                raise ValueError(  # noqa: TRY004 -- the file is wrong, not the caller
                    f"a timestamp in a path needs a format, such as {{{{ {name}:%Y-%m-%dT%H }}}}"
                )
            if isinstance(value, str) and not _SEGMENT.fullmatch(value):
                raise ValueError(f"{value!r} is not a valid name in a path: use letters, digits and _ - . = + @")
            return to_text(value)

        return _PLACEHOLDER.sub(lambda match: self._value_text(path, text, match, problem, segment), text)

    def _bind_sql(self, path: Path, text: str, dialect: str) -> str:
        separate, comments = _tokens(text, dialect)
        problem = "a variable in SQL is a complete literal: write it without quotes, and not within a name"

        def value(name: str, date_format: str | None) -> str:
            if date_format is not None:
                raise ValueError("a format is only for paths: in SQL use date_format")
            return literal(self._values[name], standard=dialect != "spark")

        def replace(match: re.Match[str]) -> str:
            if match.start() in comments:
                return match[0]
            return self._value_text(path, text, match, "" if match.start() in separate else problem, value)

        return _PLACEHOLDER.sub(replace, text)

    def _value_text(
        self,
        path: Path,
        text: str,
        match: re.Match[str],
        problem: str,
        write: Callable[[str, str | None], str],
    ) -> str:
        """Return the text that replaces a placeholder; `problem` is the reason why none is allowed here, or empty.

        In a file without `variables`, invalid placeholders stay unchanged, because the file may predate variables.
        """
        reference = _REFERENCE.fullmatch(match[1])
        if not self._declared and (reference is None or (problem and reference[1] != RUN_DATE)):
            return match[0]
        if reference is None:
            self._report(path, text, match, "is not a valid placeholder: write {{ name }}")
        elif reference[1] not in self._kinds:
            hint = did_you_mean(reference[1], self._kinds)
            self._report(path, text, match, f"is not declared under `variables`{hint}")
        elif problem:
            self._report(path, text, match, problem, doubtful=not self._declared)
        else:
            self.used.add(reference[1])
            try:
                return write(reference[1], reference[2])
            except ValueError as wrong:
                self._report(path, text, match, str(wrong))
        return match[0]

    def _report(self, path: Path, text: str, match: re.Match[str], message: str, *, doubtful: bool = False) -> None:
        line = text.count("\n", 0, match.start()) + 1
        block = self._document.line_of_sql(path, line)
        position = self._document.position(path)
        self.mistakes.append(Mistake(block, position.field, f"'{match[0]}': {message}", doubtful))


def _tokens(sql: str, dialect: str) -> tuple[set[int], set[int]]:
    """Return the offsets in SQL of placeholders that are separate tokens, and of placeholders in comments."""
    import sqlglot
    from sqlglot.errors import TokenError

    marks: dict[str, int] = {}

    def add_mark(match: re.Match[str]) -> str:
        mark = f"variable_{len(marks)}_{match.start()}_"
        marks[mark] = match.start()
        return mark

    try:
        tokens = sqlglot.tokenize(_PLACEHOLDER.sub(add_mark, sql), read=dialect)
    except TokenError:
        return set(), set()
    separate = {marks[token.text] for token in tokens if token.token_type.name == "VAR" and token.text in marks}
    comments = " ".join(comment for token in tokens for comment in token.comments)
    return separate, {position for mark, position in marks.items() if mark in comments}
