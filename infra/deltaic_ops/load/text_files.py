"""Turn text files of any encoding, and sheets of workbooks, into CSV in UTF-8, and find their header."""

import codecs
import csv
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice, product
from operator import itemgetter
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

from deltaic.errors import InvalidParameter
from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook

WORKBOOKS = {".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"}
_HEAD = 100  # rows among which the header is searched
_FULL = 0.75  # least share of the cells of a usual row that a header has
_VALUE = re.compile(r"[-+]?[\d.,' ]*\d\s*%?|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*")
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for reading files. An empty value is detected, or becomes a question.

    `types` has Delta types by name of a column in the file or in the table.
    """

    decimal: str = ""
    dates: str = ""
    header: str = ""
    sheet: str = ""
    encoding: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    all_text: bool = False


class Question(NamedTuple):
    """A choice that only the user can make: the option that answers it, and its values with their meanings."""

    option: str
    text: str
    choices: Mapping[str, str]


class TextTable(NamedTuple):
    """A CSV file in UTF-8. The names in `header` are empty if the file has none.

    `rows_before` and `lines_before` are the numbers of rows and of lines above the data. `first_row` is the number of
    the first row of data in a sheet, and 0 for a text file.
    """

    path: Path
    delimiter: str
    rows_before: int
    lines_before: int
    header: list[str]
    first_row: int


def read_table(path: Path, target: Path, options: LoadOptions, notes: list[str]) -> TextTable | Question:
    """Write a text file or a sheet as CSV, and find its header; adds notes for the user, raises InvalidParameter.

    Rows above the header have fewer cells than most rows. Under cells that are merged across columns, such as `Q1`,
    the header has a second row: these columns are named `Q1 Jan`. Without a header, names are empty.
    """
    delimiters, merged, is_sheet = ";\t|,", list[tuple[Cell, Cell]](), path.suffix.lower() in WORKBOOKS
    if is_sheet:
        sheet = _open_sheet(path, options.sheet)
        if isinstance(sheet, Question):
            return sheet
        delimiters, merged = ",", _write_sheet(sheet, target)
    elif (encoding := _write_utf8(path, target, options.encoding)) != "utf-8-sig":
        notes.append(f"{path.name} is read as {encoding.replace('cp1252', 'Windows-1252')}")
    _, delimiter, rows, ends = max((_head(target, each) for each in delimiters), key=itemgetter(0))
    if not any(map(any, rows)):
        raise InvalidParameter(f"{path.name} is empty: choose a file with a header")
    width = max(map(len, rows))
    cells = [[*row, *[""] * (width - len(row))] for row in rows]
    spans = sorted((a, b) for a, b in merged if b[0] < len(cells) and b[1] - a[1] + 1 < width)
    for (upper, left), (lower, right) in spans:
        for row, column in product(range(upper, lower + 1), range(left, right + 1)):
            cells[row][column] = cells[upper][left]
    filled = [sum(map(bool, map(str.strip, row))) for row in cells]
    usual = mode(filter(None, filled))
    first = data = next(row for row, number in enumerate(filled) if number >= _FULL * usual)
    names = [""] * len(rows[first])
    if options.header != "no":
        data += 1
        for (upper, left), (lower, right) in spans:
            if first <= upper < data:
                data = max(data, lower + 1, upper + (right > left) + 1)
        titles = list(zip(*cells[first:data], strict=True))[: len(names)]
        names = [" ".join(dict.fromkeys(filter(None, map(str.strip, title)))) for title in titles]
    if not options.header and data == first + 1 and any(map(_VALUE.fullmatch, names)):
        text = f"the first row of {path.name} has numbers or dates ({', '.join(names[:3])}, ...)"
        return Question("header", text, {"yes": "it names the columns", "no": "it is a row of the table"})
    if any(filled[:first]):
        notes.append(f"{path.name}: rows above the table are left out ({first})")
    return TextTable(target, delimiter, data, ends[data], names, data + 1 if is_sheet else 0)


def _write_utf8(path: Path, target: Path, encoding: str) -> str:
    """Write the text of a file in UTF-8, and return the encoding of the file; raises InvalidParameter."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    guesses = ["utf-8-sig", "cp1252"]
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        guesses = ["utf-16"]
    elif start.count(0) * 3 > len(start):
        guesses = ["utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"]
    for name in [encoding] if encoding else guesses:
        try:
            with path.open(encoding=name) as text, target.open("w", encoding="utf-8", newline="") as copy:
                shutil.copyfileobj(text, copy)
        except (LookupError, UnicodeError):
            continue
        return name
    raise InvalidParameter(f"{path.name} is not text in {encoding or 'UTF-8 or Windows-1252'}: correct --encoding")


def _open_sheet(path: Path, sheet: str) -> CalamineSheet | Question:
    """Return a sheet of a workbook, or ask for it; raises InvalidParameter."""
    try:
        book = CalamineWorkbook.from_path(str(path))
        sheets = {name: each for name in book.sheet_names if (each := book.get_sheet_by_name(name)).height}
    except (CalamineError, OSError) as error:
        raise InvalidParameter(f"{path.name} cannot be read as a workbook: save it again as .xlsx") from error
    if not sheets or (sheet and sheet not in sheets):
        title = f"sheet '{sheet}'" if sheet else "sheet"
        raise InvalidParameter(f"{path.name} has no {title} with cells: use {', '.join(sheets) or 'another file'}")
    if not sheet and len(sheets) > 1:
        choices = {name: f"the sheet '{name}'" for name in sheets}
        return Question("sheet", f"{path.name} has {len(sheets)} sheets with cells", choices)
    return sheets[sheet or next(iter(sheets))]


def _write_sheet(sheet: CalamineSheet, target: Path) -> list[tuple[Cell, Cell]]:
    """Write a sheet as CSV from its first row and first used column; return the corners of its merged ranges."""
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for cells in sheet.iter_rows():
            row = [_cell_text(cell) for cell in cells]
            writer.writerow(row if any(row) else [])
    _, left = sheet.start or (0, 0)
    return [((a, b - left), (c, d - left)) for (a, b), (c, d) in sheet.merged_cell_ranges or ()]


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _head(path: Path, delimiter: str) -> tuple[tuple[int, int], str, list[list[str]], list[int]]:
    """Return the number of regular rows, the delimiter, the rows, and the lines where they end."""
    rows, ends = [], [0]
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        for row in islice(reader, _HEAD):
            rows.append(row)
            ends.append(reader.line_num)
    width, regular = [*Counter(len(row) for row in rows if len(row) > 1).most_common(1), (0, 0)][0]
    return (regular, width), delimiter, rows, ends


def rejected_rows(table: TextTable, misfits: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line, reason and cells of malformed rows and of `misfits`: ascending positions among the other rows."""
    position, width = 0, len(table.header)
    misfit, reason = next(misfits, (-1, ""))
    with table.path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(islice(file, table.lines_before, None), delimiter=table.delimiter, strict=True)
        for record in count(table.first_row):
            line = record if table.first_row else table.lines_before + reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error:
                yield line, "invalid quotes", []
                continue
            if len(row) < width and row:
                yield line, "missing columns", row
            elif any(row[width:]):
                yield line, "too many columns", row
            elif row or width == 1:  # DuckDB skips an empty line
                if position == misfit:
                    yield line, reason, row
                    misfit, reason = next(misfits, (-1, ""))
                position += 1
