"""Inspect files before they become a table: columns, types, first rows, and questions about text with two readings."""

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
from deltaic.errors import InvalidParameter, NotFound

from deltaic_ops.load.column_detection import LoadedColumn, Question, detect_columns, duckdb_type, read_columns
from deltaic_ops.load.proposed_names import propose_names
from deltaic_ops.load.text_files import WORKBOOKS, TextTable, read_sheet, read_text
from deltaic_ops.load.text_readings import TEXT, TextReading

_FIRST_ROWS = 5
_SAMPLED_ROWS, _SAMPLED_CELLS = 20_000, 400_000
# Types of JSON and Parquet files that Delta lacks, and those that take their place.
_REPLACED = {
    "UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)", "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
} | dict.fromkeys(("JSON", "UUID", "TIME", "INTERVAL"), "VARCHAR")  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for reading files. An empty value is detected, or becomes a question.

    `types` has Delta types by name of a column in the file or in the table. `table_types` has those of the table that
    gets the rows, whose columns the files must have. `nulls` are texts that mean NULL, besides an empty cell.
    """

    decimal: str = ""
    dates: str = ""
    header: str = ""
    sheet: str = ""
    encoding: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    table_types: Mapping[str, str] = field(default_factory=dict)
    all_text: bool = False
    nulls: tuple[str, ...] = ()


@dataclass(slots=True)
class FilePreview:
    """Files that can be loaded until the block of `preview` ends, and their first `rows` as text, after conversion.

    By file: `tables` has the CSV form, None for JSON lines and Parquet; `relations` is SQL with the table's names.
    """

    paths: Sequence[Path]
    connection: duckdb.DuckDBPyConnection
    columns: list[LoadedColumn] = field(default_factory=list)
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[TextTable | None] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)

    @property
    def expected_rows(self) -> int | None:
        """About how many rows text files have, by the lines at their beginning; None for Parquet files."""
        expected = 0
        for path in (table.path if table else path for path, table in zip(self.paths, self.tables, strict=True)):
            with path.open("rb") as file:
                start = file.read(1 << 16)
            if start.startswith(b"PAR1"):
                return None
            expected += path.stat().st_size * start.count(b"\n") // max(len(start), 1)
        return expected

    def check_answered(self) -> None:
        """Raise InvalidParameter that names the option for the first open question."""
        for option, text, choices in self.questions:
            listed = ", ".join(f"--{option} {shlex.quote(value)} ({meaning})" for value, meaning in choices.items())
            raise InvalidParameter(f"{text}: choose {listed}")


@contextmanager
def preview(paths: Sequence[Path], options: LoadOptions) -> Iterator[FilePreview]:
    """Inspect files that become one table; raises NotFound, and InvalidParameter for unreadable or different files."""
    if missing := next((path for path in paths if not path.is_file()), None):
        raise NotFound(f"file '{missing}' not found: check its path")
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1 and kinds & {"json", "parquet"}:
        raise InvalidParameter("the files have different formats: load the files of one format at a time")
    with tempfile.TemporaryDirectory(prefix="deltaic-load-") as folder, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = '{folder}'; SET memory_limit = '800MB'; SET TimeZone = 'UTC'")
        connection.execute(f"SET threads = {min(os.cpu_count() or 2, 4)}")
        result = FilePreview(paths, connection)
        try:
            if kinds & {"json", "parquet"}:
                _describe(result, kinds.pop(), options)
            else:
                _detect(result, Path(folder), options)
            if result.columns:
                values = ", ".join(f"v{number}::VARCHAR" for number in range(len(result.columns)))
                first = read_columns(result.columns, f"(FROM {result.relations[0]} LIMIT {_FIRST_ROWS})")
                result.rows = connection.execute(f"SELECT {values} FROM {first}").fetchall()
        except duckdb.Error as error:
            raise InvalidParameter(f"the files cannot be read: {str(error).splitlines()[0]}") from error
        yield result


def _kind(path: Path) -> str:
    suffixes = {suffix.lower() for suffix in path.suffixes}
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        return "parquet"
    if suffixes & {".json", ".jsonl", ".ndjson"}:
        return "json"
    return "workbook" if suffixes & WORKBOOKS or start == b"PK\3\4" else "text"


def _detect(result: FilePreview, folder: Path, options: LoadOptions) -> None:
    """Read text files and workbooks, and find how their columns are read by the first rows of all of them."""
    for number, path in enumerate(result.paths):
        (file_folder := folder / str(number)).mkdir()
        if _kind(path) == "workbook":
            table = read_sheet(path, file_folder, options.sheet, options.header)
        else:
            table = read_text(path, file_folder, options.encoding, options.header)
        if isinstance(table, list):
            choices = {sheet: f"the sheet '{sheet}'" for sheet in table}
            result.questions.append(Question("sheet", f"{path.name} has {len(table)} sheets with cells", choices))
            return
        names = propose_names(table.header)
        if not number:
            columns = [*map(LoadedColumn, names, table.header)]
        elif different := sorted({*names} ^ {column.name for column in columns}):
            raise InvalidParameter(f"columns {', '.join(different)} differ between {path.name} and the first file")
        if table.undecided and not any(each.option == "header" for each in result.questions):
            choices = {"yes": "it names the columns", "no": "it is a row of the table"}
            text = f"the first row of {path.name} has numbers or dates ({', '.join(table.header[:3])}, ...)"
            result.questions.append(Question("header", text, choices))
        result.tables.append(table)
        result.notes += table.notes
        result.relations.append(_csv(table, names, options.nulls, number))
    limit = min(_SAMPLED_ROWS, max(1000, _SAMPLED_CELLS // len(columns)))
    union = " UNION ALL BY NAME ".join(f"(FROM {each} LIMIT {limit})" for each in result.relations)
    result.connection.execute(f"CREATE TEMP TABLE sample AS {union}")
    forced, answers = _chosen_types(columns, options), {"decimal": options.decimal, "dates": options.dates}
    result.columns, questions = detect_columns(result.connection, columns, forced, answers, result.notes)
    result.questions += questions


def _describe(result: FilePreview, kind: str, options: LoadOptions) -> None:
    """Take the columns and types of JSON lines or Parquet files from the files."""
    files = f"[{', '.join(map(_literal, result.paths))}], union_by_name=true"
    whole = f"read_parquet({files})" if kind == "parquet" else f"read_json({files}, format='newline_delimited')"
    stored = {str(row[0]): str(row[1]) for row in result.connection.execute(f"DESCRIBE FROM {whole}").fetchall()}
    columns = [*map(LoadedColumn, propose_names([*stored]), stored)]
    forced = _chosen_types(columns, options)
    for column in columns:
        stored_type = stored[column.original]
        type_ = forced.get(column.name) or _REPLACED.get(stored_type, stored_type)
        sql = "{raw} ->> '$'" if kind == "json" and type_ == TEXT.type else f"TRY_CAST({{raw}} AS {type_})"
        result.columns.append(replace(column, reading=TextReading(type_, sql)))
    renamed = ", ".join(f'"{column.original.replace(chr(34), chr(34) * 2)}" AS "{column.name}"' for column in columns)
    as_json = "format='newline_delimited', columns={" + ", ".join(f"{_literal(name)}: 'JSON'" for name in stored) + "}"
    for path in result.paths:
        rows = f"read_parquet({_literal(path)})" if kind == "parquet" else f"read_json({_literal(path)}, {as_json})"
        result.relations.append(f"(SELECT {renamed} FROM {rows})")
        result.tables.append(None)


def _chosen_types(columns: Sequence[LoadedColumn], options: LoadOptions) -> dict[str, str]:
    """Return the DuckDB types that the options choose, by name in the table; raises InvalidParameter."""
    names = [column.name for column in columns]
    if options.table_types and (different := sorted({*names} ^ options.table_types.keys())):
        raise InvalidParameter(f"the files and the table have different columns: {', '.join(different)}. Use --replace")
    chosen = dict.fromkeys(names, TEXT.type) if options.all_text else {}
    chosen |= {name: duckdb_type(type_) for name, type_ in options.table_types.items() if type_}
    for given, type_ in options.types.items():
        name = next((each.name for each in columns if given in {each.name, each.original}), None)
        if name is None:
            raise InvalidParameter(f"--types names '{given}', which is not a column: use one of {', '.join(names)}")
        chosen[name] = duckdb_type(type_)
    return chosen


def _csv(table: TextTable, names: Sequence[str], nulls: Sequence[str], number: int) -> str:
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
    return (
        f"read_csv({_literal(table.path)}, delim={_literal(table.delimiter)}, quote='\"', "
        f"escape='\"', header=false, skip={table.skip}, auto_detect=false, strict_mode=true, "
        f"columns={{{columns}}}, nullstr=[{', '.join(map(_literal, ('', *nulls)))}], max_line_size=16000000, "
        f"store_rejects=true, rejects_table='rejects_{number}', rejects_scan='scans_{number}', rejects_limit=100000)"
    )


def _literal(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
