"""The text of a dataset file: its values, and the line of each, for a mistake is told with the line that holds it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Path = Sequence[str | int]
"""The way to a value: field names and positions in lists."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong at one place of a file."""

    line: int
    """Counted from 1."""

    field: str
    """The way to the value, such as `sources.patients.paths[0]`; empty for the file as a whole."""

    message: str
    doubtful: bool = False
    """True where only Spark can tell: it is shown, and refuses nothing."""

    def __str__(self) -> str:
        kind = "perhaps: " if self.doubtful else ""
        return f"{self.field}: {kind}{self.message}" if self.field else f"{kind}{self.message}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands."""

    line: int
    field: str
    node: yaml.Node


class Unreadable(Exception):
    """The text is no YAML, or says something twice; holds the mistakes."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = mistakes


class Document:
    """A YAML text that was read."""

    def __init__(self, root: yaml.Node, value: Any) -> None:
        self._root = root
        self.value = value
        """Its content, as plain Python values."""

    @classmethod
    def read(cls, text: str) -> "Document":
        """Read a text; raises Unreadable with every place that keeps it from being read."""
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise Unreadable([Mistake(1, "", "the file is empty: `deltaic pipeline schema` prints its fields")])
            if repeated := list(_repeated(root, "")):
                raise Unreadable(repeated)
            return cls(root, loader.construct_document(root))
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise Unreadable([Mistake(line, "", "a character that YAML does not allow")]) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = "; ".join(part for part in (error.context, error.problem) if part)
            hint = " (indent with spaces)" if "\\t" in said else ""
            raise Unreadable([Mistake(mark.line + 1 if mark else 1, "", f"not YAML: {said}{hint}")]) from None
        except (ValueError, RecursionError) as error:  # such as a date that is none
            raise Unreadable([Mistake(1, "", f"not YAML: {error}")]) from None
        finally:
            loader.dispose()

    def place(self, path: Path) -> Place:
        """Return where a value stands; where it is missing, where that which lacks it begins.

        Parts of the path that the text does not have (which kind of source pydantic took it for) are left out.
        """
        node, field, line = self._root, "", self._root.start_mark.line + 1
        for position, part in enumerate(path):
            found = _child(node, part)
            if found is not None:
                node, line = found
                field = _joined(field, part)
            elif position == len(path) - 1:
                field = _joined(field, part)  # the missing one itself
        return Place(line, field, node)

    def line_of_sql(self, path: Path, line: int) -> int:
        """Return the file's line for a line of a text that may be a block (`sql: |`)."""
        found = self.place(path)
        block = isinstance(found.node, yaml.ScalarNode) and found.node.style in {"|", ">"}
        return found.node.start_mark.line + line + (1 if block else 0)


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child, child.start_mark.line + 1
    return None


def _joined(field: str, part: str | int) -> str:
    if isinstance(part, int):
        return f"{field}[{part}]"
    return f"{field}.{part}" if field else part


def _repeated(node: yaml.Node, field: str) -> Iterator[Mistake]:
    """Find fields that are written twice, of which YAML would take the last without a word."""
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                yield Mistake(line, _joined(field, name), f"is written twice, first in line {lines[name]}")
            lines[name] = line
            yield from _repeated(value, _joined(field, name))
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            yield from _repeated(value, _joined(field, position))
