"""Turn text files of any encoding, and sheets of workbooks, into CSV in UTF-8 that DuckDB reads."""

import codecs
import csv
import gzip
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, islice, product
from operator import itemgetter
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

from deltaic.errors import InvalidParameter
from python_calamine import CalamineError, CalamineWorkbook

WORKBOOKS = {".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"}
_HEAD = 100  # rows among which the header is searched
_FULL = 0.75  # least share of the cells of a usual row that a header has
_DELIMITERS = ";\t|,"
_CHUNK = 1 << 22
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_VALUE = re.compile(r"[-+]?[\d.,' ]*\d\s*%?|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}.*")


class TextTable(NamedTuple):
    """A CSV file in UTF-8 with the names of its columns, "" if it has no header.

    `skip` lines precede the data. The header of an `undecided` file can also be data. `sheet_rows` has rows of a sheet.
    """

    path: Path
    delimiter: str
    skip: int
    header: Sequence[str]
    undecided: bool
    notes: Sequence[str] = ()
    sheet_rows: Sequence[int] = ()


def read_text(path: Path, folder: Path, encoding: str, header: str) -> TextTable:
    """Return a text file in UTF-8 with its delimiter and header; raises InvalidParameter if it is not a table."""
    plain, notes = _to_utf8(path, folder, encoding)
    _, delimiter, rows, ends = max((_head(plain, each) for each in _DELIMITERS), key=itemgetter(0))
    if not any(map(any, rows)):
        raise InvalidParameter(f"{path.name} is empty: choose a file with a header")
    first, after, names, undecided = find_header(rows, header)
    if first:
        notes.append(f"{path.name}: the table begins in line {ends[first] + 1}; the text above it is left out")
    return TextTable(plain, delimiter, ends[after], names, undecided, notes)


def _head(path: Path, delimiter: str) -> tuple[tuple[int, int], str, list[list[str]], list[int]]:
    """Return the number of regular rows, the delimiter, the rows, and the lines where they end."""
    rows, ends = [], [0]
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        for row in islice(reader, _HEAD):
            rows.append(row)
            ends.append(reader.line_num)
    width, count = [*Counter(len(row) for row in rows if len(row) > 1).most_common(1), (0, 0)][0]
    return (count, width), delimiter, rows, ends


def _to_utf8(path: Path, folder: Path, encoding: str) -> tuple[Path, list[str]]:
    """Return a file in UTF-8 with the same text, and notes for the user."""
    open_: Any = gzip.open if path.suffix == ".gz" else open
    with open_(path, "rb") as file:
        start = file.read(1 << 16)
    guesses = [encoding] if encoding else [name for bom, name in _BOMS if start.startswith(bom)]
    if not guesses and start.count(0) * 3 > len(start):
        guesses = ["utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"]
    for name in guesses or ["utf-8", "cp1252"]:
        target = folder / f"{path.name}.{name}"
        try:
            decoder = codecs.getincrementaldecoder(name)()
            with open_(path, "rb") as raw, target.open("w", encoding="utf-8", newline="") as file:
                write = file.write if name != "utf-8" or open_ is not open else len  # UTF-8 is only checked
                for chunk in chain(iter(partial(raw.read, _CHUNK), b""), [b""]):
                    write(decoder.decode(chunk, not chunk))
        except (LookupError, UnicodeDecodeError):
            continue
        if name == "utf-8":
            return path if open_ is open else target, []
        return target, [f"{path.name} is read as {'Windows-1252' if name == 'cp1252' else name}"]
    raise InvalidParameter(f"{path.name} is not text in {encoding or 'UTF-8 or Windows-1252'}: correct --encoding")


def find_header(
    rows: Sequence[Sequence[str]], header: str, merged: Iterable[tuple[tuple[int, int], tuple[int, int]]] = ()
) -> tuple[int, int, list[str], bool]:
    """Return the first row of the table and of the data, the names, and whether the header can be data.

    Rows above the header have fewer cells than most rows. Under cells that are merged across columns, such as `Q1`,
    the header has a second row: these columns are named `Q1 Jan`. With "no", there is no header, and names are empty.
    """
    width = max(map(len, rows))
    cells = [[*row, *[""] * (width - len(row))] for row in rows]
    spans = sorted((a, b) for a, b in merged if b[0] < len(cells) and b[1] - a[1] + 1 < width)
    for (top, left), (bottom, right) in spans:
        for row, column in product(range(top, bottom + 1), range(left, right + 1)):
            cells[row][column] = cells[top][left]
    filled = [sum(map(bool, map(str.strip, row))) for row in cells]
    usual = mode(filter(None, filled))
    first = next(row for row, count in enumerate(filled) if count >= _FULL * usual)
    last = first
    for (top, left), (bottom, right) in spans:
        if first <= top <= last:
            last = max(last, bottom, top + (right > left))
    if header == "no":
        return first, first, [""] * len(rows[first]), False
    block = list(zip(*cells[first : last + 1], strict=True))[: len(rows[first])]
    names = [" ".join(dict.fromkeys(filter(None, map(str.strip, column)))) for column in block]
    return first, last + 1, names, not header and first == last and any(map(_VALUE.fullmatch, names))


def read_sheet(path: Path, folder: Path, sheet: str, header: str) -> TextTable | list[str]:
    """Return a sheet of a workbook, or the names of its sheets if the user must choose one; raises InvalidParameter."""
    try:
        book = CalamineWorkbook.from_path(str(path))
        names = [name for name in book.sheet_names if book.get_sheet_by_name(name).height]
    except (CalamineError, OSError) as error:
        raise InvalidParameter(f"{path.name} cannot be read as a workbook: save it again as .xlsx") from error
    if not names or (sheet and sheet not in names):
        raise InvalidParameter(f"{path.name} has no sheet '{sheet}' with cells: it has {', '.join(names) or 'none'}")
    if not sheet and len(names) > 1:
        return names
    page = book.get_sheet_by_name(sheet or names[0])
    top, left = page.start or (0, 0)
    rows = ([_cell_text(cell) for cell in row] for row in page.iter_rows())
    head = list(islice(rows, _HEAD))
    merged = [((a - top, b - left), (c - top, d - left)) for (a, b), (c, d) in page.merged_cell_ranges or ()]
    first, after, titles, undecided = find_header(head, header, merged)
    target, numbers = folder / f"{path.name}.csv", []
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for number, row in enumerate(chain(head, rows)):
            if number >= after and any(row):
                writer.writerow(row)
                numbers.append(number + top + 1)
    notes = [f"{path.name}: the table begins in row {first + top + 1}; the rows above are left out"] if first else []
    return TextTable(target, ",", 0, titles, undecided, notes, numbers)


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)


def read_records(table: TextTable, positions: Sequence[int], broken: Container[int]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of the rows at these positions, ascending; lines in `broken` have no position."""
    searched, position, line = set(positions), 0, 0
    with table.path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter=table.delimiter)
        for row in reader:
            begin, line = line + 1, reader.line_num
            if begin > table.skip and row and begin not in broken:
                if position in searched:
                    yield table.sheet_rows[position] if table.sheet_rows else begin, row
                position += 1


def lines_at(path: Path, positions: Sequence[int]) -> Iterator[int]:
    """Yield the line in which each byte position of a file lies; the positions ascend."""
    line, done = 1, 0
    with path.open("rb") as file:
        for position in positions:
            while chunk := file.read(min(_CHUNK, position - done)):
                line, done = line + chunk.count(b"\n"), done + len(chunk)
            yield line
