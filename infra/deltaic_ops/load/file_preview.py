"""Inspect files before they become a table: columns, types, first rows, and questions about text with two readings."""

import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
from deltaic.errors import InvalidParameter, NotFound

from deltaic_ops.load.column_detection import LoadedColumn, detect_column, duckdb_type, read_columns
from deltaic_ops.load.proposed_names import propose_names
from deltaic_ops.load.text_files import WORKBOOKS, LoadOptions, Question, TextTable, read_table
from deltaic_ops.load.text_readings import TEXT, TextReading

_FIRST_ROWS = 5
_SAMPLED_ROWS, _SAMPLED_CELLS = 20_000, 400_000
_KINDS = dict.fromkeys((".json", ".jsonl", ".ndjson"), "json") | {".parquet": "parquet"}
_KINDS |= dict.fromkeys(WORKBOOKS, "workbook")
# Types of JSON and Parquet files that Delta lacks, and those that take their place.
_REPLACED = {
    "UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)", "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
} | dict.fromkeys(("JSON", "UUID", "TIME", "INTERVAL"), TEXT.type)  # fmt: skip


@dataclass(slots=True)
class FilePreview:
    """Files that can be loaded until the block of `preview` ends, and their first `rows` as text, after conversion.

    `relations` is SQL with the table's names: for each text file and workbook, which `tables` has as CSV, or for all
    other files together.
    """

    paths: Sequence[Path]
    connection: duckdb.DuckDBPyConnection
    columns: list[LoadedColumn] = field(default_factory=list)
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)

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
    kind, *others = {_KINDS.get(path.suffix.lower(), "text") for path in paths}
    if others:
        raise InvalidParameter("the files have different formats: load the files of one format at a time")
    # The database is a file, because it holds the rows until they are written into the table.
    with tempfile.TemporaryDirectory(prefix="deltaic-load-") as folder, duckdb.connect(f"{folder}/rows.db") as database:
        threads = min(os.cpu_count() or 2, 4)
        database.execute(f"SET memory_limit = '800MB'; SET TimeZone = 'UTC'; SET threads = {threads}")
        database.execute("SET force_compression = 'uncompressed'")  # the rows are read once, and then deleted
        result = FilePreview(paths, database)
        try:
            if kind in {"json", "parquet"}:
                _describe(result, kind, options)
            else:
                _detect(result, Path(folder), options)
            if result.columns:
                values = ", ".join(f"v{number}::VARCHAR" for number in range(len(result.columns)))
                first = read_columns(result.columns, f"(FROM {result.relations[0]} LIMIT {_FIRST_ROWS})")
                result.rows = database.execute(f"SELECT {values} FROM {first}").fetchall()
            yield result
        except RuntimeError as error:  # DuckDB's answer to Ctrl-C
            raise KeyboardInterrupt from error
        except duckdb.Error as error:
            raise InvalidParameter(f"the files cannot be read: {str(error).splitlines()[0]}") from error


def _detect(result: FilePreview, folder: Path, options: LoadOptions) -> None:
    """Read text files or workbooks, and find how their columns are read by the first rows of all of them."""
    columns: list[LoadedColumn] = []
    for number, path in enumerate(result.paths):
        target = folder / f"{number}.csv"
        table = read_table(path, target, options, result.notes)
        if isinstance(table, Question):
            result.questions = [table]
            return
        names = propose_names(table.header)
        columns = columns or [*map(LoadedColumn, names, table.header)]
        if different := sorted({*names} ^ {column.name for column in columns}):
            raise InvalidParameter(f"columns {', '.join(different)} differ between {path.name} and the first file")
        result.tables.append(table)
        texts = ", ".join(f"'{name}': 'VARCHAR'" for name in names)
        result.relations.append(
            f"read_csv('{target}', auto_detect=false, delim='{table.delimiter}', skip={table.rows_before}, "
            f"columns={{{texts}}}, store_rejects=true, rejects_table='rejects_{number}', rejects_scan='scans_{number}')"
        )
    limit = min(_SAMPLED_ROWS, max(1000, _SAMPLED_CELLS // len(columns)))
    union = " UNION ALL BY NAME ".join(f"(FROM {each} LIMIT {limit})" for each in result.relations)
    result.connection.execute(f"CREATE TEMP TABLE sample AS {union}")
    types = _chosen_types(columns, options)
    for column in columns:
        reading, question = detect_column(result.connection, column, types.get(column.name, ""), options)
        result.columns.append(replace(column, reading=reading))
        result.questions += [question] if question else []
        if reading.sign:
            result.notes.append(f"{column.name}: the sign {reading.sign} is removed from the numbers")


def _describe(result: FilePreview, kind: str, options: LoadOptions) -> None:
    """Take the columns and types of JSON or Parquet files from the files."""
    files = f"[{', '.join(map(_literal, result.paths))}], union_by_name=true"
    rows = f"read_{kind}({files}{', sample_size=-1' if kind == 'json' else ''})"
    described = result.connection.execute(f"DESCRIBE FROM {rows}").fetchall()
    columns = [*map(LoadedColumn, propose_names([row[0] for row in described]), (row[0] for row in described))]
    chosen, renamed = _chosen_types(columns, options), list[str]()
    for column, (original, stored, *_) in zip(columns, described, strict=True):
        type_ = chosen.get(column.name) or _REPLACED.get(stored, stored)
        value = "({v} ->> '$')" if stored == "JSON" else "{v}"
        reading = TextReading(type_, f"TRY_CAST({value} AS {type_})", is_raw=True)
        result.columns.append(replace(column, reading=reading))
        renamed.append(f'"{original.replace(chr(34), chr(34) * 2)}" AS "{column.name}"')
    result.relations.append(f"(SELECT {', '.join(renamed)} FROM {rows})")


def _chosen_types(columns: Sequence[LoadedColumn], options: LoadOptions) -> dict[str, str]:
    """Return the DuckDB types that the options choose, by name in the table; raises InvalidParameter."""
    names = [column.name for column in columns]
    chosen = dict.fromkeys(names, TEXT.type) if options.all_text else {}
    for given, type_ in options.types.items():
        name = next((each.name for each in columns if given in {each.name, each.original}), None)
        if name is None:
            raise InvalidParameter(f"the files have no column '{given}': use one of {', '.join(names)}")
        chosen[name] = duckdb_type(type_)
    return chosen


def _literal(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
