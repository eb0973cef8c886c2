"""Binds variables: `{{ name }}` in the paths, queries and conditions of a dataset file becomes the variable's value.

In SQL a place is a token of its own, as sqlglot reads it; what it reads otherwise than Spark costs a query, and lets
nothing in, since literals have nothing of a value that SQL would read (`variables`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaic_terminal.document import Document, Mistake, Path
from deltaic_terminal.nearest import did_you_mean

from deltaic_datasets.file.variable_values import EXAMPLES, Kind, Value, literal, plain, value_of

RUN_DATE = "run_date"
"""The variable that every dataset has: the day (a timestamp: the moment) for which a schedule starts the run."""

_PLACE = re.compile(r"\{\{([^{}\n]*)\}\}")
_NAMED = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?::\s*(\S+)\s*)?")
_FORM = re.compile(r"(?:%[YmdHMS]|[\w=/-]|\.(?!\.))+")
_SEGMENT = re.compile(r"[\w=+@](?:[\w=+@ -]|\.(?!\.))*(?<![. ])")
"""A name within a path: no separator, no scheme, no glob, and nothing that leads upwards."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A file's content with its variables' values in their places."""

    content: Any
    mistakes: list[Mistake] = field(default_factory=list)
    values: Mapping[str, Value] = field(default_factory=dict)
    used: frozenset[str] = frozenset()


def bind(document: Document, given: Mapping[str, str] | None) -> Bound:
    """Put values in the places of variables; what cannot be put is a mistake, and an example stands there.

    `given` are the texts of `--set`; None: nothing is run now, so that a value which is missing is told as a doubt.
    """
    content = document.value if isinstance(document.value, dict) else {}
    kinds = _kinds(content)
    values, mistakes = _values(document, content, kinds, given)
    binding = _Binding(document, kinds, values, declared="variables" in content)
    bound = binding.walked((), content)
    return Bound(bound, [*mistakes, *binding.mistakes], values, frozenset(binding.used))


def _kinds(content: Mapping[Any, Any]) -> dict[str, Kind]:
    """Return the types by name; what is declared in a way that is none is the model's to tell."""
    kinds: dict[str, Kind] = {RUN_DATE: "date"}
    for name, said in _declared(content).items():
        kind = said.get("type") if isinstance(said, dict) else None
        if isinstance(kind, str) and kind in EXAMPLES:
            kinds[str(name)] = cast("Kind", kind)
    return kinds


def _declared(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    declared = content.get("variables")
    return declared if isinstance(declared, dict) else {}


def _values(
    document: Document, content: Mapping[Any, Any], kinds: Mapping[str, Kind], given: Mapping[str, str] | None
) -> tuple[dict[str, Value], list[Mistake]]:
    values: dict[str, Value] = {}
    mistakes: list[Mistake] = []

    def tell(path: Path, message: str, *, doubtful: bool = False) -> None:
        place = document.place(path)
        mistakes.append(Mistake(place.line, place.field, message, doubtful))

    for name in given or ():
        if name not in kinds:
            tell(("variables",), f"has no '{name}', which --set names{did_you_mean(name, kinds)}")
    for name, kind in kinds.items():
        here = ("variables", name)
        default = _declared(content)[name].get("default") if name in _declared(content) else None
        if name == RUN_DATE and kind not in {"date", "timestamp"}:
            tell((*here, "type"), f"is the schedule's day: give it type date or timestamp, not {kind}")
        try:
            if name in (given or {}):
                text = (given or {})[name]
                values[name] = value_of(kind, _scheduled(text, content) if (name, kind) == (RUN_DATE, "date") else text)
            elif default is not None:
                values[name] = value_of(kind, default)
            elif name == RUN_DATE:
                now = datetime.now(UTC).replace(microsecond=0)
                values[name] = now if kind == "timestamp" else now.date()
            else:
                needed = f"--set {name}={plain(EXAMPLES[kind])}"
                tell(here, f"has no default: a run needs {needed}", doubtful=given is None)
        except ValueError as wrong:
            tell(here if name in (given or {}) else (*here, "default"), str(wrong))
    return values, mistakes


def _scheduled(text: str, content: Mapping[Any, Any]) -> str:
    """Return the day of a moment for which a schedule fires, in the schedule's time zone; other texts as they are."""
    schedule = content.get("schedule")
    zone = schedule.get("timezone") if isinstance(schedule, dict) else None
    try:
        moment = datetime.fromisoformat(text)
        return text if moment.tzinfo is None else f"{moment.astimezone(ZoneInfo(str(zone or 'UTC'))):%Y-%m-%d}"
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

    def walked(self, path: tuple[str | int, ...], value: Any) -> Any:
        """Return a value of the file with all within it bound."""
        match value:
            case dict():
                return {name: self.walked((*path, name), each) for name, each in value.items()}
            case list():
                return [self.walked((*path, number), each) for number, each in enumerate(value)]
            case str() if "{{" in value:
                return self._text(path, value)
            case _:
                return value

    def _text(self, path: tuple[str | int, ...], text: str) -> str:
        match path:
            case ("sources", _, "paths", _) | ("sources", _, "path") | ("target", "location") | ("quarantine",):
                return self._path(path, text)
            case ("stream", "checkpoint"):
                return self._path(path, text)
            case ("steps", _, "sql") | ("expectations", _, "condition") | ("write", "where" | "delete_when"):
                return self._sql(path, text, dialect="spark")
            case ("sources", _, "query"):
                return self._sql(path, text, dialect="postgres")
        for found in _PLACE.finditer(text) if self._declared and path[:1] != ("variables",) else ():
            if found[1].strip() in self._kinds:
                self._tell(path, text, found, "no variable is put here: paths, queries and conditions take them")
        return text

    def _path(self, path: Path, text: str) -> str:
        head = _PLACE.sub("\0", text).partition("/")[0]
        away = "is no part of a scheme" if "\0" in head and ":" in head else ""

        def segment(name: str, form: str | None) -> str:
            value = self._values[name]
            if form is not None:
                if not isinstance(value, date) or not _FORM.fullmatch(form):
                    raise ValueError(f"'{form}' is no form of it: dates and timestamps have such as %Y/%m/%d")
                return value.strftime(form)
            if isinstance(value, datetime):
                raise ValueError(  # noqa: TRY004 -- of the file, not of a caller
                    f"a timestamp in a path needs a form, such as {{{{ {name}:%Y-%m-%dT%H }}}}"
                )
            if isinstance(value, str) and not _SEGMENT.fullmatch(value):
                raise ValueError(f"{value!r} is no name within a path: letters, digits and _ - . = + @")
            return plain(value)

        return _PLACE.sub(lambda found: self._put(path, text, found, away, segment), text)

    def _sql(self, path: Path, text: str, dialect: str) -> str:
        free, remarks = _tokens(text, dialect)

        away = "stands within quotes or a name, and is a value by itself: write it without them"

        def value(name: str, form: str | None) -> str:
            if form is not None:
                raise ValueError("a form is for paths: SQL has date_format")
            return literal(self._values[name], standard=dialect != "spark")

        def put(found: re.Match[str]) -> str:
            if found.start() in remarks:
                return found[0]
            return self._put(path, text, found, "" if found.start() in free else away, value)

        return _PLACE.sub(put, text)

    def _put(
        self,
        path: Path,
        text: str,
        found: re.Match[str],
        away: str,
        written: Callable[[str, str | None], str],
    ) -> str:
        """Return what stands in the place of one `{{ name }}`; `away` says why no value can.

        In a file without `variables` what is no value is text, as it was before there were any.
        """
        named = _NAMED.fullmatch(found[1])
        if not self._declared and (named is None or (away and named[1] != RUN_DATE)):
            return found[0]
        if named is None:
            self._tell(path, text, found, "is no variable: write {{ name }}")
        elif named[1] not in self._kinds:
            self._tell(path, text, found, f"is not declared under `variables`{did_you_mean(named[1], self._kinds)}")
        elif away:
            self._tell(path, text, found, away, doubtful=not self._declared)
        else:
            self.used.add(named[1])
            try:
                return written(named[1], named[2])
            except ValueError as wrong:
                self._tell(path, text, found, str(wrong))
        return found[0]

    def _tell(self, path: Path, text: str, found: re.Match[str], message: str, *, doubtful: bool = False) -> None:
        line = text.count("\n", 0, found.start()) + 1
        block = self._document.line_of_sql(path, line)
        place = self._document.place(path)
        self.mistakes.append(Mistake(block, place.field, f"'{found[0]}': {message}", doubtful))


def _tokens(sql: str, dialect: str) -> tuple[set[int], set[int]]:
    """Return where in a query places stand that are tokens by themselves, and which are parts of comments."""
    import sqlglot
    from sqlglot.errors import TokenError

    marks: dict[str, int] = {}

    def marked(found: re.Match[str]) -> str:
        mark = f"variable_{len(marks)}_{found.start()}_"
        marks[mark] = found.start()
        return mark

    try:
        tokens = sqlglot.tokenize(_PLACE.sub(marked, sql), read=dialect)
    except TokenError:
        return set(), set()
    free = {marks[token.text] for token in tokens if token.token_type.name == "VAR" and token.text in marks}
    remarks = " ".join(comment for token in tokens for comment in token.comments)
    return free, {place for mark, place in marks.items() if mark in remarks}
