"""The commands `deltaic export`, `deltaic drift` and `deltaic schema-file`: the catalog as files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic.errors import InvalidParameter

from deltaic_ops.cli.listing import print_lines
from deltaic_ops.cli.operator import Operator, operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

    from deltaic_ops.declared.entries import Difference
    from deltaic_ops.declared.model import Declaration

_COLOURS = {"-": "red", "+": "green", "~": "yellow"}
_DRIFTED = 2
"""The exit code where the catalog is not what the files say."""


def catalog_of(out: Operator, admin: "CatalogAdmin", beside: "Declaration | None" = None) -> "Declaration":
    """Read the catalog as a declaration (`declaration_of`), and let people see how far that is."""
    from deltaic_ops.declared.entries import declaration_of

    with out.waiting("reading the catalog:") as tell:
        return declaration_of(admin, tell, beside)


def schema_file(ctx: typer.Context) -> None:
    r"""Print the JSON Schema of the catalog as files, by which editors complete and check them.

    \b
    deltaic schema-file > deltaic.schema.json
    """
    from deltaic_ops.declared.model import Declaration

    operator(ctx, as_json=True).json(Declaration.model_json_schema())


def export(out: Operator, folder: Annotated[Path | None, typer.Argument(metavar="[FOLDER]")] = None) -> None:
    r"""Write the catalog as YAML: storages, shares with all that is in them, recipients with their grants; no secrets.

    Into a folder: a file for each share, one for recipients, one for storages; without one it is printed.

    \b
    deltaic export
    deltaic export shares-as-code/
    """
    from deltaic_ops.declared.files import text_of, write

    found = catalog_of(out, out.admin)
    if folder is None:
        if out.as_json:
            out.json(found.model_dump(mode="json", exclude_defaults=True))
        else:
            typer.echo(text_of(found).rstrip())
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidParameter(f"'{folder}' is there and not empty: name a new folder")
    written = write(found, folder)
    if out.as_json:
        out.json([str(path) for path in written])
    out.note(f"wrote {len(written)} files into {folder}")


def drift(out: Operator, files: Annotated[list[Path], typer.Argument(metavar="FILES|FOLDER")]) -> None:
    r"""Say how the catalog differs from files; nothing is changed. The exit code is 2 where it does.

    \b
    deltaic drift shares-as-code/
    deltaic drift shares.yaml recipients.yaml --json
    """
    from deltaic_ops.declared.entries import differences
    from deltaic_ops.declared.files import read

    declared = read(files)
    found = differences(declared, catalog_of(out, out.admin, declared))
    if out.as_json:
        out.json(
            [
                {"kind": one.kind, "name": one.name, "inFiles": one.in_files, "inCatalog": one.in_catalog}
                for one in found
            ]
        )
    else:
        print_lines((line, _COLOURS.get(line[0], "")) for line in _lines(found))
    out.note("the catalog is what the files say" if not found else f"{len(found)} entries differ")
    if found:
        raise typer.Exit(_DRIFTED)


def _lines(found: "Iterable[Difference]") -> "Iterator[str]":
    for one in found:
        if one.in_catalog is None:
            yield f"- {one.kind} {one.name}: in the files, and not in the catalog"
        elif one.in_files is None:
            yield f"+ {one.kind} {one.name}: in the catalog, and not in the files"
        else:
            yield f"~ {one.kind} {one.name}"
            for field, value in one.in_files.items():
                told = [json.dumps(each, ensure_ascii=False) for each in (value, one.in_catalog[field])]
                yield f"    {field}: {told[0]} in the files, {told[1]} in the catalog"
