"""Read and write declarations as YAML files; errors name the file, line and column."""

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
from deltaic_ops.declared.differences import repeated_policies, unknown_names
from deltaic_ops.declared.file_errors import Mistakes

GROUPS = tuple(Declaration.model_fields)


@dataclass(frozen=True, slots=True)
class _ParsedFile:
    path: Path
    lines: Sequence[str]
    document: Document

    def position(self, keys: Sequence[str | int]) -> str:
        """Return the position of a value as file:line:column, which editors can open."""
        value = self.document.position(keys)
        return _position(self.path, self.lines, Mistake(value.line, value.field, ""))

    def message(self, keys: Sequence[str | int], message: str) -> str:
        value = self.document.position(keys)
        return _message(self.path, self.lines, Mistake(value.line, value.field, message))


def _message(path: Path, lines: Sequence[str], mistake: Mistake) -> str:
    return f"{_position(path, lines, mistake)}: {mistake}"


def _position(path: Path, lines: Sequence[str], mistake: Mistake) -> str:
    line = lines[mistake.line - 1] if mistake.line <= len(lines) else ""
    column = len(line) - len(line.lstrip())
    parts = re.sub(r"(\[[0-9]+\])+$", "", mistake.field).split(".")
    for start in range(len(parts)):  # names can contain periods, so try the longest name first
        name = re.escape(".".join(parts[start:]))
        if name and (match := re.search(rf"(?<![\w.-]){name}(?![\w.-])", line)):
            column = match.start()
            break
    return f"{path}:{mistake.line}:{column + 1}"


def read(paths: Sequence[Path]) -> Declaration:
    """Read YAML files, and the YAML files in folders, as one declaration.

    A share, recipient or storage must not be in two files. Raises InvalidParameter with a line for each error.
    """
    files = [*{file.resolve(): file for path in paths for file in _files(path)}.values()]
    if not files:
        raise InvalidParameter(f"no .yaml file in {', '.join(map(str, paths))}")
    groups: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    first_files: dict[tuple[str, str], tuple[_ParsedFile, str]] = {}
    errors: list[str] = []
    for file in files:
        try:
            part, parsed = _read(file)
        except Mistakes as mistakes:
            errors += mistakes.lines
            continue
        for group in GROUPS:
            for name in getattr(part, group):
                first, spelled = first_files.setdefault((group, name.lower()), (parsed, name))
                if first is not parsed:
                    position = first.position((group, spelled))
                    errors.append(parsed.message((group, name), f"is already declared at {position}"))
            groups[group] |= getattr(part, group)
    if errors:
        raise Mistakes(errors)
    declared = Declaration(**groups)
    problems = (*unknown_names(declared), *repeated_policies(declared))
    errors = [first_files[str(keys[0]), str(keys[1]).lower()][0].message(keys, message) for keys, message in problems]
    if errors:
        raise Mistakes(errors)
    return declared


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if file.suffix.lower() in {".yaml", ".yml"} and file.is_file() and not hidden:
            yield file


def _read(file: Path) -> tuple[Declaration, _ParsedFile]:
    lines: Sequence[str] = ()
    try:
        content = file.read_bytes()
        lines = content.decode().split("\n")
        document = Document.read(content.decode(), "schema-file")
    except FileNotFoundError:
        raise InvalidParameter(f"file {file} does not exist") from None
    except UnicodeDecodeError as failure:
        before = content[: failure.start].rpartition(b"\n")
        position = f"{file}:{content[: failure.start].count(10) + 1}:{len(before[2]) + 1}"
        raise Mistakes([f"{position}: not UTF-8: save the file as UTF-8"]) from None
    except OSError as failure:
        raise InvalidParameter(f"cannot read {file}: {failure}") from None
    except Unreadable as unreadable:
        raise Mistakes([_message(file, lines, mistake) for mistake in unreadable.mistakes]) from None
    try:
        return Declaration.model_validate(document.value), _ParsedFile(file, lines, document)
    except ValidationError as error:
        unique = {mistake_of(document, detail, fields()) for detail in error.errors()}
        mistakes = sorted(unique, key=lambda mistake: (mistake.line, mistake.field))
        raise Mistakes([_message(file, lines, mistake) for mistake in mistakes]) from None


def text_of(declaration: Declaration) -> str:
    """Return a declaration as YAML, without fields that have their default value."""
    values = declaration.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120) if values else "{}\n"


def write(declaration: Declaration, folder: Path) -> list[Path]:
    """Write storages.yaml, recipients.yaml and a file for each share; return the paths."""
    shares = declaration.shares.items()
    parts = {f"shares/{quote(name, safe='')}.yaml": Declaration(shares={name: share}) for name, share in shares}
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
