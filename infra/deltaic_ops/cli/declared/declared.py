"""The commands `deltaic export`, `deltaic drift` and `deltaic schema-file`: the catalog as files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from deltaic.errors import InvalidParameter

from deltaic_ops.cli.list_output import print_lines
from deltaic_ops.cli.operator import Operator, operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

    from deltaic_ops.declared.declaration import Declaration
    from deltaic_ops.declared.differences import CatalogDifference

FilesOrFolder = Annotated[list[Path], typer.Argument(metavar="FILES|FOLDER", help="YAML files, or a folder of them.")]
_FOLDER = "New folder: one file for each share, one for recipients, one for storages. [default: print to stdout]"
NewFolder = Annotated[Path | None, typer.Argument(metavar="FOLDER", help=_FOLDER)]
_COLOURS = {"-": "red", "+": "green", "~": "yellow"}
_DRIFTED = 2
"""Exit code if the catalog differs from the files."""


def catalog_of(cli: Operator, admin: "CatalogAdmin", declared: "Declaration | None" = None) -> "Declaration":
    """Read the catalog as a Declaration, and show progress on a terminal."""
    from deltaic_ops.declared.differences import declaration_of

    with cli.progress_step("reading the catalog:") as update:
        return declaration_of(admin, update, declared)


def schema_file(ctx: typer.Context) -> None:
    r"""Print the JSON Schema of the YAML files for plan and apply, for editors.

    \b
    deltaic schema-file > deltaic.schema.json
    """
    from deltaic_ops.declared.declaration import Declaration

    operator(ctx, as_json=True).json(Declaration.model_json_schema())


def export(cli: Operator, folder: NewFolder = None) -> None:
    r"""Write the catalog as YAML files.

    The files contain storages, shares with their contents, and recipients with their grants, but no secrets.

    \b
    deltaic export
    deltaic export shares-as-code/
    """
    from deltaic_ops.declared.declaration_files import text_of, write

    catalog = catalog_of(cli, cli.admin)
    if folder is None:
        if cli.as_json:
            cli.json(catalog.model_dump(mode="json", exclude_defaults=True))
        else:
            typer.echo(text_of(catalog).rstrip())
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidParameter(f"folder '{folder}' is not empty: choose a new folder")
    written = write(catalog, folder)
    if cli.as_json:
        cli.json([str(path) for path in written])
    cli.note(f"wrote {len(written)} files into {folder}")


def drift(cli: Operator, files: FilesOrFolder) -> None:
    r"""Compare the catalog with YAML files and report differences. The exit code is 2 if they differ.

    \b
    deltaic drift shares-as-code/
    deltaic drift shares.yaml recipients.yaml --json
    """
    from deltaic_ops.declared.declaration_files import read
    from deltaic_ops.declared.differences import differences

    declared = read(files)
    drifted = differences(declared, catalog_of(cli, cli.admin, declared))
    if cli.as_json:
        cli.json([
            {"kind": item.kind, "name": item.name, "inFiles": item.in_files, "inCatalog": item.in_catalog}
            for item in drifted
        ])  # fmt: skip
    else:
        print_lines((line, _COLOURS.get(line[0], "")) for line in _lines(drifted))
    cli.note("the catalog matches the files" if not drifted else f"{len(drifted)} entries differ")
    if drifted:
        raise typer.Exit(_DRIFTED)


def _lines(drifted: "Iterable[CatalogDifference]") -> "Iterator[str]":
    for item in drifted:
        if item.in_catalog is None:
            yield f"- {item.kind} {item.name}: only in the files"
        elif item.in_files is None:
            yield f"+ {item.kind} {item.name}: only in the catalog"
        else:
            yield f"~ {item.kind} {item.name}"
            for field, value in item.in_files.items():
                values = [json.dumps(each, ensure_ascii=False) for each in (value, item.in_catalog[field])]
                yield f"    {field}: {values[0]} in the files, {values[1]} in the catalog"
