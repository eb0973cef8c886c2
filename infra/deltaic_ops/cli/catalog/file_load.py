"""The command `deltaic table load`: files become a shared table."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from deltaic.errors import Unavailable

from deltaic_ops.cli.extras import missing_extra
from deltaic_ops.cli.operator import Operator, Yes, wire
from deltaic_ops.cli.value_parsers import TableTitle, pairs, table_name

if TYPE_CHECKING:
    from deltaic_ops.load.file_preview import FilePreview
    from deltaic_ops.load.text_files import LoadOptions

_FILES = "CSV, TSV, Excel, JSON lines or Parquet files with the same columns."
_TO = "Folder of the table: s3://bucket/path. [default on the local server: a folder in its bucket]"
_TYPES = "Delta type of a column, for example price=DECIMAL(10,2). Can be repeated."
_DATES = "Order of day and month in dates such as 03/04/2026."
_HEADER = "Whether the first row names the columns."
_Dates = Literal["", "day-first", "month-first"]
_REJECTED = "Number of rows that may not fit. They are listed in FILE.rejected.csv."


def load_files(  # noqa: PLR0913, PLR0917 -- the options of a load
    cli: Operator,
    name: TableTitle,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=_FILES)],
    to: Annotated[str, typer.Option(metavar="S3-URI", help=_TO)] = "",
    append: Annotated[bool, typer.Option("--append", help="Add the rows to an existing table.")] = False,
    replace_: Annotated[bool, typer.Option("--replace", help="Replace all rows and columns of a table.")] = False,
    types: Annotated[list[str] | None, typer.Option(metavar="COLUMN=TYPE", help=_TYPES)] = None,
    text: Annotated[bool, typer.Option("--text", help="Load all columns as text.")] = False,
    decimal: Annotated[Literal["", ".", ","], typer.Option(metavar=".|,", help="Decimal sign of numbers.")] = "",
    dates: Annotated[_Dates, typer.Option(metavar="day-first|month-first", help=_DATES)] = "",
    header: Annotated[Literal["", "yes", "no"], typer.Option(metavar="yes|no", help=_HEADER)] = "",
    sheet: Annotated[str, typer.Option(metavar="NAME", help="Sheet of an Excel file with several sheets.")] = "",
    encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of the text. [default: detected]")] = "",
    max_rejected: Annotated[int, typer.Option(min=0, metavar="N", help=_REJECTED)] = 0,
    yes: Yes = False,
) -> None:
    r"""Load files into a Delta table and share it.

    The command shows the first rows with names and types and asks before it writes. It creates the share and
    schema if they are missing.

    \b
    deltaic table load sales_share.europe.orders orders.csv
    deltaic table load sales_share.europe.orders january.xlsx february.xlsx --to s3://bucket/orders
    deltaic table load sales_share.europe.orders more.csv --append --yes
    deltaic table load sales_share.europe.orders orders.csv --replace --types "price=DECIMAL(10,2)"
    """
    if remedy := missing_extra("load"):
        raise Unavailable(remedy)
    from deltaic_ops.load.load_target import find_target, share_table
    from deltaic_ops.load.table_load import LoadMode, load, stored_types
    from deltaic_ops.load.text_files import LoadOptions

    if append and replace_:
        raise typer.BadParameter("use --append or --replace, not both")
    mode: LoadMode = "append" if append else "replace" if replace_ else "create"
    names = table_name(name)
    location, entry = find_target(cli.admin, names, to, cli.connection.data_bucket, creates=mode == "create")
    storage = cli.connection.storage_options
    chosen = pairs(types) | (stored_types(location, storage) if append else {})
    options = LoadOptions(decimal, dates, header, sheet, encoding, chosen, text)
    with _answered_preview(cli, files, options, yes) as preview:
        loaded = ", ".join(file.name for file in files)
        cli.confirm(f"Load {loaded} into {location}, and share it as {name}?", yes=yes)
        if sys.stdout.isatty() and not cli.as_json:
            preview.connection.execute("SET enable_progress_bar = true")
        result = load(
            preview, location, mode, storage, max_rejected, lambda: entry or share_table(cli.admin, names, location)
        )
        columns = [{"name": each.name, "type": each.delta_type, "original": each.original} for each in preview.columns]
    table, lists = result.shared, [str(path) for path in result.lists]
    if cli.as_json:
        counts = {"rows": result.rows, "rejected": result.rejected, "rejectedFiles": lists, "version": result.version}
        cli.json({**wire(table), **counts, "columns": columns})
        return
    rejected = f"; {result.rejected:,} rows are in {', '.join(lists)}" if lists else ""
    rows = f"{result.rows:,} row{'' if result.rows == 1 else 's'}"
    cli.note(f"loaded {rows} into {table.location}, version {result.version}{rejected}")
    cli.show(table, f"shared table '{table.title}'; next: deltaic grant create <recipient> {table.share}")


@contextmanager
def _answered_preview(cli: Operator, files: list[Path], options: "LoadOptions", yes: bool) -> Iterator["FilePreview"]:
    """Inspect the files, and ask the questions on a terminal; raises InvalidParameter if there is none."""
    from deltaic_ops.load.file_preview import preview

    while True:
        with preview(files, options) as result:
            if yes or cli.as_json or not sys.stdin.isatty():
                result.check_answered()
            if not result.questions:
                if not cli.as_json:
                    _show(cli, result)
                yield result
                return
            option, text, choices = result.questions[0]
        cli.note("\n  ".join([text, *(f"{value}: {meaning}" for value, meaning in choices.items())]))
        while (answer := typer.prompt(f"{option} ({', '.join(choices)})")) not in choices:
            pass
        options = replace(options, **{option: answer})


def _show(cli: Operator, preview: "FilePreview") -> None:
    """Print the columns with their types, names in the file and first values, and the notes."""
    headings = ["COLUMN", "TYPE", "IN FILE", *(f"ROW {number}" for number in range(1, len(preview.rows) + 1))]
    rows = []
    for position, column in enumerate(preview.columns):
        type_ = " ".join((column.delta_type, *column.reading.formats))
        rows.append((column.name, type_, column.original, *(values[position] or "" for values in preview.rows)))
    cli.table(rows, [(heading, itemgetter(position)) for position, heading in enumerate(headings)])
    for note in preview.notes:
        cli.note(note)
