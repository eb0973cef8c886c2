"""Write previewed files into a Delta table: all rows in one commit, or nothing."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import deltalake
import pyarrow as pa
from deltaic.errors import AlreadyExists, Conflict, DeltaicError, InvalidParameter, Unavailable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.schema import PrimitiveType
from pyarrow.fs import FileSelector, PyFileSystem

from deltaic_ops.load.column_detection import read_columns
from deltaic_ops.load.file_preview import FilePreview
from deltaic_ops.load.text_files import rejected_rows

LoadMode = Literal["create", "append", "replace"]
_WRITE_MODES = {"create": "error", "append": "append", "replace": "overwrite"}
_REASON = '"rejected because"'  # the names of columns have no spaces
_STATUS = re.compile(r"NoSuchBucket|AccessDenied|\b[45]\d\d [A-Z][a-z]+( [A-Z][a-z]+)?")


@dataclass(slots=True)
class LoadResult:
    """Numbers of loaded and rejected rows, the lists of rejected rows, the version, and what `share` returned."""

    rows: int = 0
    rejected: int = 0
    lists: list[Path] = field(default_factory=list)
    first_rejected: str = ""
    version: int = -1
    shared: Any = None


def load(  # noqa: PLR0913, PLR0917 -- what a load needs
    files: FilePreview,
    location: str,
    mode: LoadMode = "create",
    storage_options: Mapping[str, str] | None = None,
    max_rejected: int = 0,
    share: Callable[[], object] = lambda: None,
) -> LoadResult:
    """Write the files into a Delta table in one commit, then call `share`.

    `create` requires a location without a table; the other modes create a missing table. Rows that do not fit are
    listed in FILE.rejected.csv. After an error, also of `share`, a new table is removed, and an existing table is
    unchanged unless `share` failed. KeyboardInterrupt does the same before the commit, and has no effect after it.
    Raises InvalidParameter, for example for an open question or rejected rows, AlreadyExists, Conflict, Unavailable.
    """
    files.check_answered()
    options = dict(storage_options or {})
    try:
        existing = _open(location, options)
        if existing and mode == "create":
            raise AlreadyExists(f"there is a table at {location}: add rows with --append, or replace it with --replace")
        result = _convert(files)
        if result.rejected > max_rejected:
            number = f"{result.rejected:,} row{'s do' if result.rejected > 1 else ' does'}"
            raise InvalidParameter(
                f"nothing was loaded: {number} not fit, first {result.first_rejected}. All are in "
                f"{', '.join(map(str, result.lists))}: correct them, choose another type (--types), "
                f"or use --max-rejected {result.rejected}"
            )
        rows = _converted_rows(files)
        settings: Any = {"mode": _WRITE_MODES[mode], "schema_mode": "overwrite" if mode == "replace" else None}
        store = PyFileSystem(DeltaStorageHandler(location, options))
        before = _paths(store)

        def write() -> None:
            deltalake.write_deltalake(location, rows, storage_options=options, **settings)
            result.version = deltalake.DeltaTable(location, storage_options=options).version()
            result.shared = share()

        def remove() -> None:
            if not existing and (result.version == 0 or not _open(location, options)):  # nobody else created it
                for path in _paths(store) - before:
                    store.delete_file(path)

        _run(write, files.connection.interrupt, remove)
    except (DeltaError, OSError) as error:
        raise _refusal(error, location) from error
    return result


def stored_types(location: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """Return the Delta types of a table's columns, without nested types; empty if there is no table."""
    table = _open(location, dict(storage_options))
    fields = table.schema().fields if table else []
    return {each.name: each.type.type for each in fields if isinstance(each.type, PrimitiveType)}


def _open(location: str, options: dict[str, str]) -> deltalake.DeltaTable | None:
    exists = deltalake.DeltaTable.is_deltatable(location, storage_options=options)
    return deltalake.DeltaTable(location, storage_options=options) if exists else None


def _paths(store: PyFileSystem) -> set[str]:
    return {each.path for each in store.get_file_info(FileSelector("", recursive=True)) if each.is_file}


def _convert(files: FilePreview) -> LoadResult:
    """Convert all rows into tables of DuckDB, and list those that do not fit."""
    result, database = LoadResult(), files.connection
    values = ", ".join(f'v{number} AS "{column.name}"' for number, column in enumerate(files.columns))
    checks = " ".join(
        f"WHEN s{number} IS NOT NULL AND v{number} IS NULL THEN '{column.name} is not {column.delta_type}'"
        for number, column in enumerate(files.columns)
    )
    for number, relation in enumerate(files.relations):
        rows = f"SELECT {values}, CASE {checks} END AS {_REASON} FROM {read_columns(files.columns, relation)}"
        database.execute(f"CREATE TABLE rows_{number} AS {rows}")
        counts = f"SELECT count(*) - count({_REASON}), count({_REASON}) FROM rows_{number}"
        matching, rejected = database.execute(counts).fetchall()[0]
        if files.tables:
            malformed = f"SELECT count(DISTINCT line_byte_position) FROM rejects_{number}"
            rejected += database.execute(malformed).fetchall()[0][0]
        result.rows += matching
        result.rejected += rejected
        if rejected:
            _list_rejected(files, number, result)
    return result


def _list_rejected(files: FilePreview, number: int, result: LoadResult) -> None:
    """List the rejected rows of a file with lines and reasons in a file next to it."""
    path = files.paths[number]
    query = f"SELECT rowid, {_REASON} FROM rows_{number} WHERE {_REASON} IS NOT NULL ORDER BY rowid"
    misfits: Iterator[tuple[int, str]] = iter(files.connection.execute(query).fetchone, None)
    places = ((row + 1, reason, list[str]()) for row, reason in misfits)
    result.lists.append(path.with_name(f"{path.name}.rejected.csv"))
    with result.lists[-1].open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["line", "reason", *(column.original or column.name for column in files.columns)])
        for line, reason, cells in rejected_rows(files.tables[number], misfits) if files.tables else places:
            writer.writerow([line, reason, *cells])
            result.first_rejected = result.first_rejected or f"line {line} of {path.name}: {reason}"


def _converted_rows(files: FilePreview) -> pa.RecordBatchReader:
    """Return the rows that fit; names that were replaced are comments of their columns."""
    rows = f"SELECT * EXCLUDE {_REASON} FROM rows_{{}} WHERE {_REASON} IS NULL"
    query = " UNION ALL ".join(rows.format(number) for number in range(len(files.relations)))
    reader = files.connection.sql(query).to_arrow_reader()
    comments = {each.name: {"comment": each.original} for each in files.columns if each.original not in {each.name, ""}}
    return reader.cast(pa.schema([each.with_metadata(comments.get(each.name)) for each in reader.schema]))


def _run(write: Callable[[], object], stop: Callable[[], object], remove: Callable[[], object]) -> None:
    """Call `write` in a thread, because Ctrl-C reaches only Python code; call `stop` and `remove` if it fails."""
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            writing.result()
        except BaseException:
            stop()
            if writing.exception() is not None:  # otherwise Ctrl-C came after the last change
                remove()
                raise


def _refusal(error: Exception, location: str) -> DeltaicError:
    status = _STATUS.search(str(error))
    text = status[0] if status else str(error).splitlines()[0]
    if "already exists" in text or "conflict" in text.lower():
        return Conflict(f"another program changed the table at {location}: nothing was loaded, run the command again")
    if "schema" in text.lower() or "cast" in text.lower():
        return InvalidParameter(f"the columns differ from those of the table ({text}): use --types or --replace")
    return Unavailable(f"cannot write to {location} ({text}): check the location and your permissions")
