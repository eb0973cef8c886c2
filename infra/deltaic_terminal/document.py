"""Parse YAML text into values and their line numbers, so that errors can be reported with a line."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Path = Sequence[str | int]
"""Path of a value in a YAML document: field names, and indexes in lists."""

_BOOLEANS = {**dict.fromkeys(("yes", "on", "true"), True), **dict.fromkeys(("no", "off", "false"), False)}
"""Boolean values by the unquoted strings that YAML 1.1 reads as booleans, in lower case."""

_AMBIGUOUS = {
    "tag:yaml.org,2002:bool": re.compile("(?i)yes|no|on|off"),
    "tag:yaml.org,2002:int": re.compile("[-+]?(0[0-9_].*|.*:.*)"),
    "tag:yaml.org,2002:float": re.compile(".*:.*"),
}
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's loader: the one in C (libyaml) if available, because it is four times as fast."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """An error in a YAML file, with its position."""

    line: int
    """Line number in the file, counted from 1."""

    field: str
    """Path of the wrong value, such as `sources.patients.paths[0]`; empty if the error is not about one value."""

    message: str
    doubtful: bool = False
    """Whether only Spark can decide if this is an error; it is then shown as a warning."""

    def __str__(self) -> str:
        kind = "perhaps: " if self.doubtful else ""
        return f"{self.field}: {kind}{self.message}" if self.field else f"{kind}{self.message}"


@dataclass(frozen=True, slots=True)
class TextPosition:
    """Position of a value in the YAML text."""

    line: int
    field: str
    node: yaml.Node


class Unreadable(Exception):
    """The text is not valid YAML, or repeats a field. `mistakes` lists the errors."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = mistakes


class Document:
    """A parsed YAML document: its values, and the position of each in the text."""

    def __init__(self, root: yaml.Node, value: Any, used: Collection[str] = ()) -> None:
        self._root = root
        self.value = value
        """Content of the document as Python dicts, lists and scalars."""

        self.used = used
        """Names of the variables whose placeholders occur in the text."""

    @classmethod
    def read(cls, text: str, command: str = "pipeline schema") -> "Document":
        """Parse a YAML text; raises Unreadable with all errors in it.

        `command` is the `deltaic` command that prints the fields of such a file; error messages mention it.
        """
        loader, root = None, None
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
            if root is None:
                raise Unreadable([Mistake(1, "", f"the file is empty: `deltaic {command}` prints its fields")])
            if not isinstance(root, yaml.MappingNode):
                raise Unreadable([Mistake(1, "", f"no `field: value` lines: `deltaic {command}` prints its fields")])
            if repeated := [*_repeated_fields(root, ""), *_ambiguous_values(root, "")]:
                raise Unreadable(repeated)
            return cls(root, loader.construct_document(root))
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise Unreadable([Mistake(line, "", "the line has a character that YAML does not allow")]) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = "; ".join(part for part in (error.context, error.problem) if part)
            line = min(mark.line, text.count("\n")) + 1 if mark else 1  # libyaml reports the end after the last line
            written = text.split("\n")[line - 1]
            hint = " (indent with spaces)" if "\t" in written[: len(written) - len(written.lstrip())] else ""
            hint = hint or " (quote what has {{ }})" * ("{{" in written)
            raise Unreadable([Mistake(line, "", f"not YAML: {message}{hint}")]) from None
        except (ValueError, RecursionError) as error:  # for example an invalid date
            line = next(_invalid_values(loader, root), 1) if isinstance(error, ValueError) else 1
            raise Unreadable([Mistake(line, "", f"not YAML: {error}")]) from None
        finally:
            if loader is not None:
                loader.dispose()

    def with_variables(self, value: Any, used: Collection[str]) -> "Document":
        """Return a document with the same positions and this content, in which values replaced the variables `used`."""
        return Document(self._root, value, used)

    def position(self, path: Path) -> TextPosition:
        """Return the position of the value at a path; for a missing value, that of its parent.

        Parts of the path that do not occur in the text, such as pydantic's union tags, are skipped.
        """
        node, field, line = self._root, "", self._root.start_mark.line + 1
        for position, part in enumerate(path):
            child = _child(node, part)
            if child is not None:
                node, line, name = child
                field = _join(field, name)
            elif position == len(path) - 1:
                field = _join(field, part)  # the missing field
        return TextPosition(line, field, node)

    def line_of_sql(self, path: Path, line: int) -> int:
        """Return the file's line number of a line in a value with several lines, such as `sql: |`."""
        node = self.position(path).node
        block = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
        return node.start_mark.line + line + (1 if block else 0)


def _invalid_values(loader: Any, node: yaml.Node | None) -> Iterator[int]:
    """Yield the line numbers of values that cannot be converted to Python, such as the date 2027-13-01."""
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from (line for child in pair for line in _invalid_values(loader, child))
    elif isinstance(node, yaml.SequenceNode):
        yield from (line for child in node.value for line in _invalid_values(loader, child))
    elif node is not None:
        try:
            loader.construct_object(node)
        except (ValueError, yaml.YAMLError):  # YAMLError: the loader reports a repeated attempt as recursion
            yield node.start_mark.line + 1


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, int, str | int] | None:
    if isinstance(node, yaml.MappingNode):
        pairs = [(key, value) for key, value in node.value if key.value == str(part)]
        # Pydantic shows a key that YAML reads as a boolean as 1 or 0.
        for key, value in pairs or [pair for pair in node.value if _BOOLEANS.get(str(pair[0].value).lower()) == part]:
            return value, key.start_mark.line + 1, str(key.value)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child, child.start_mark.line + 1, part
    return None


def _join(field: str, part: str | int) -> str:
    if isinstance(part, int):
        return f"{field}[{part}]"
    return f"{field}.{part}" if field else part


def _ambiguous_values(node: yaml.Node, field: str) -> Iterator[Mistake]:
    """Yield an error for each unquoted string that YAML 1.1 converts: `NO` to false, `010` to 8, `10:30` to 630."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _ambiguous_values(key, field)
            yield from _ambiguous_values(value, _join(field, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for position, child in enumerate(node.value):
            yield from _ambiguous_values(child, _join(field, position))
    elif _AMBIGUOUS.get(node.tag) and _AMBIGUOUS[node.tag].fullmatch(node.value):
        message = (
            f"YAML reads {node.value} as another value: write '{node.value}' in quotes, or true, false or a decimal"
        )
        yield Mistake(node.start_mark.line + 1, field, message)


def _repeated_fields(node: yaml.Node, field: str) -> Iterator[Mistake]:
    """Yield an error for each repeated field, because YAML would silently use the last value."""
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                yield Mistake(line, _join(field, name), f"is written twice, first in line {lines[name]}")
            lines[name] = line
            yield from _repeated_fields(value, _join(field, name))
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            yield from _repeated_fields(value, _join(field, position))
