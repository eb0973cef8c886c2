"""Read and write declarations as YAML files; errors have the line and column of the mistake."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from deltaic.errors import InvalidParameter
from deltaic_terminal.document import Document, Mistake, Unreadable
from deltaic_terminal.validation_errors import mistake_of
from pydantic import ValidationError

from deltaic_ops.declared.declaration import Declaration, fields
from deltaic_ops.declared.differences import policies_said_twice, unknown_names
from deltaic_ops.declared.file_errors import Mistakes

MOST_TOLD = 100
"""Number of mistakes that are reported for one file."""

MOST_VALUES = 1_000_000
LARGEST_BYTES = 64 << 20

GROUPS = tuple(Declaration.model_fields)


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    lines: Sequence[str]
    document: Document

    def place(self, way: Sequence[str | int]) -> str:
        """Return the position of a value as file:line:column, which editors can open."""
        found = self.document.position(way)
        return _place(self.path, self.lines, Mistake(found.line, found.field, ""))

    def told(self, way: Sequence[str | int], message: str) -> str:
        """Return a message about a value, with its position."""
        found = self.document.position(way)
        return _told(self.path, self.lines, Mistake(found.line, found.field, message))


def _told(path: Path, lines: Sequence[str], mistake: Mistake) -> str:
    return f"{_place(path, lines, mistake)}: {mistake}"


def _place(path: Path, lines: Sequence[str], mistake: Mistake) -> str:
    line = lines[mistake.line - 1] if mistake.line <= len(lines) else ""
    column = len(line) - len(line.lstrip())
    parts = re.sub(r"(\[[0-9]+\])+$", "", mistake.field).split(".")
    for start in range(len(parts)):  # names have periods too: the longest first
        name = re.escape(".".join(parts[start:]))
        if name and (found := re.search(rf"(?<![\w.-]){name}(?![\w.-])", line)):
            column = found.start()
            break
    return f"{path}:{mistake.line}:{column + 1}"


def read(paths: Sequence[Path]) -> Declaration:
    """Return the declaration of files and folders together; raises InvalidParameter with a line for each mistake.

    Each share, recipient or storage must be declared completely in one file.
    """
    files = [*{file.resolve(): file for path in paths for file in _files(path)}.values()]
    if not files:
        raise InvalidParameter(f"no .yaml file in {', '.join(map(str, paths))}")
    told: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    first: dict[tuple[str, str], tuple[_File, str]] = {}
    wrong: list[str] = []
    for file in files:
        try:
            one, text = _read(file)
        except Mistakes as mistakes:
            wrong += mistakes.lines
            continue
        for group in GROUPS:
            for name in getattr(one, group):
                other, spelled = first.setdefault((group, name.lower()), (text, name))
                if other is not text:
                    there = other.place((group, spelled))
                    wrong.append(text.told((group, name), f"is already declared at {there}"))
            told[group] |= getattr(one, group)
    if wrong:
        raise Mistakes(wrong)
    declared = Declaration(**told)
    found = (*unknown_names(declared), *policies_said_twice(declared))
    wrong = [first[str(way[0]), str(way[1]).lower()][0].told(way, said) for way, said in found]
    if wrong:
        raise Mistakes(wrong)
    return declared


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.suffix.lower() in {".yaml", ".yml"} and file.is_file() and not hidden:
            yield file


def _read(file: Path) -> tuple[Declaration, _File]:
    lines: Sequence[str] = ()
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise InvalidParameter(f"{file} is larger than {LARGEST_BYTES >> 20} MiB: split it into several files")
        lines = content.decode().split("\n")
        document = Document.read(content.decode(), "schema-file", MOST_VALUES)
    except FileNotFoundError:
        raise InvalidParameter(f"file {file} does not exist") from None
    except UnicodeDecodeError as failure:
        before = content[: failure.start].rpartition(b"\n")
        place = f"{file}:{content[: failure.start].count(10) + 1}:{len(before[2]) + 1}"
        raise Mistakes([f"{place}: not UTF-8: save the file as UTF-8"]) from None
    except OSError as failure:
        raise InvalidParameter(f"cannot read {file}: {failure}") from None
    except Unreadable as unreadable:
        raise Mistakes([_told(file, lines, one) for one in unreadable.mistakes[:MOST_TOLD]]) from None
    try:
        return Declaration.model_validate(document.value), _File(file, lines, document)
    except ValidationError as refused:
        found = {mistake_of(document, error, fields()) for error in refused.errors()[:MOST_TOLD]}
        some = sorted(found, key=lambda mistake: (mistake.line, mistake.field))
        raise Mistakes([_told(file, lines, one) for one in some]) from None


def text_of(declaration: Declaration) -> str:
    """Return a declaration as YAML, without default values."""
    told = declaration.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120) if told else "{}\n"


def write(declaration: Declaration, folder: Path) -> list[Path]:
    """Write `storages.yaml`, `recipients.yaml` and one file for each share into a folder; return their paths."""
    shares = declaration.shares.items()
    parts = {f"shares/{quote(name, safe='')}.yaml": Declaration(shares={name: one}) for name, one in shares}
    if declaration.storages:
        parts["storages.yaml"] = Declaration(storages=declaration.storages)
    if declaration.recipients:
        parts["recipients.yaml"] = Declaration(recipients=declaration.recipients)
    written = []
    for name, part in parts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(part), encoding="utf-8")
        written.append(path)
    return written
