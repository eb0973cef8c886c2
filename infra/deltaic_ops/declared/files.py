"""Reads and writes declarations as YAML files; what is wrong with one is told with its line."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from deltaic.errors import InvalidParameter
from deltaic_pipeline.datasets.document import Document, Mistake, Unreadable
from deltaic_pipeline.datasets.mistakes import mistake_of
from pydantic import ValidationError

from deltaic_ops.declared.entries import unknown_names
from deltaic_ops.declared.model import Declaration, fields

MOST_TOLD = 100
"""Mistakes of one file."""

MOST_VALUES = 1_000_000
LARGEST_BYTES = 64 << 20

GROUPS = tuple(Declaration.model_fields)


def read(paths: Sequence[Path]) -> Declaration:
    """Return what files, and all files of folders, say together; raises InvalidParameter with a line per mistake.

    A share, a recipient or a storage stands whole in one of them.
    """
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise InvalidParameter(f"no .yaml file lies in {', '.join(map(str, paths))}")
    told: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    first: dict[tuple[str, str], _Where] = {}
    wrong: list[str] = []
    for file in files:
        try:
            one, document = _read(file)
        except Unreadable as unreadable:
            wrong += [f"{file}:{mistake.line}: {mistake}" for mistake in unreadable.mistakes[:MOST_TOLD]]
            continue
        for group in GROUPS:
            for name in getattr(one, group):
                here = file, document, name
                other = first.setdefault((group, name.lower()), here)
                if other is not here:
                    wrong.append(_twice(group, here, other))
            told[group] |= getattr(one, group)
    if wrong:
        raise InvalidParameter("\n".join(wrong))
    declared = Declaration(**told)
    wrong = [_at(first[way[0], way[1].lower()], way, said) for way, said in unknown_names(declared)]
    if wrong:
        raise InvalidParameter("\n".join(wrong))
    return declared


_Where = tuple[Path, Document, str]
"""A file, its text, and a name that it spells."""


def _twice(group: str, here: _Where, other: _Where) -> str:
    file, document, name = other
    first = document.place((group, name))
    return _at(here, (group, here[2]), f"is declared at {file}:{first.line} already")


def _at(where: _Where, way: Sequence[str], said: str) -> str:
    file, document, _ = where
    place = document.place(way)
    return f"{file}:{place.line}: {Mistake(place.line, place.field, said)}"


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from sorted(file for file in path.rglob("*") if file.suffix.lower() in {".yaml", ".yml"} and file.is_file())


def _read(file: Path) -> tuple[Declaration, Document]:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise InvalidParameter(f"{file} is larger than {LARGEST_BYTES >> 20} MiB: divide it into several files")
        document = Document.read(content.decode(), "export --schema", MOST_VALUES)
    except FileNotFoundError:
        raise InvalidParameter(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as failure:
        raise InvalidParameter(f"{file} cannot be read: {failure}") from None
    try:
        return Declaration.model_validate(document.value), document
    except ValidationError as refused:
        found = {mistake_of(document, error, fields()) for error in refused.errors()[:MOST_TOLD]}
        raise Unreadable(sorted(found, key=lambda mistake: (mistake.line, mistake.field))) from None


def text_of(declaration: Declaration) -> str:
    """Return a declaration as YAML, without what has its default."""
    told = declaration.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120) if told else "{}\n"


def write(declaration: Declaration, folder: Path) -> list[Path]:
    """Write `storages.yaml`, `recipients.yaml` and a file for each share into a folder; return what was written."""
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
