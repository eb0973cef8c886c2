"""Write previewed files into a Delta table: all rows in one commit, or nothing."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Literal

import deltalake
import obstore
import pyarrow as pa
from deltaic.errors import AlreadyExists, Conflict, DeltaicError, InvalidParameter, Unavailable
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from obstore.store import LocalStore, S3Store

from deltaic_ops.load.column_detection import read_columns
from deltaic_ops.load.file_preview import FilePreview
from deltaic_ops.load.text_files import lines_at, read_records

LoadMode = Literal["create", "append", "replace"]
_BATCH = 50_000
_LISTED = 10_000  # rows of a file that do not fit and are listed; the rest is only counted
_STATUS = re.compile(r"NoSuchBucket|AccessDenied|\b[45]\d\d [A-Z][a-z]+( [A-Z][a-z]+)?")
_DATA_FILE = re.compile(r"part-\d+-([0-9a-f-]{36})-[^/]*\.parquet$")


@dataclass(slots=True)
class LoadResult:
    """Numbers of loaded and rejected rows, the lists of rejected rows, and the version of the table."""

    rows: int = 0
    rejected: int = 0
    lists: list[Path] = field(default_factory=list)
    first_rejected: str = ""
    version: int = -1


def load(  # noqa: PLR0913 -- what a load needs
    files: FilePreview,
    location: str,
    mode: LoadMode = "create",
    *,
    storage_options: Mapping[str, str] | None = None,
    max_rejected: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> LoadResult:
    """Write the files into a Delta table in one commit; `progress` receives the number of rows read.

    `create` requires a location without a table; the other modes create a missing table. Rows that do not fit are
    listed in FILE.rejected.csv. After an error, also KeyboardInterrupt, the table is as before, without new files.
    Raises InvalidParameter, for example for an open question or rejected rows, AlreadyExists, Conflict, Unavailable.
    """
    files.check_answered()
    options, result, stop = dict(storage_options or {}), LoadResult(), Event()
    try:
        existing, store = _open(location, options), _open_store(location, options)
        if existing and mode == "create":
            raise AlreadyExists(f"there is a table at {location}: add rows with --append, or replace it with --replace")
        before, batches = _objects(store), _batches(files, result, max_rejected, progress, stop)
        settings: Any = {"mode": "append" if existing else "error"}
        if mode == "replace":
            settings = {"mode": "overwrite", "schema_mode": "overwrite" if existing else None}
        reader = pa.RecordBatchReader.from_batches(_schema(files), batches)
        # In a thread, because the main thread can handle Ctrl-C only while it runs Python.
        with ThreadPoolExecutor(1) as pool:
            write: Any = deltalake.write_deltalake
            writing = pool.submit(write, existing or location, reader, storage_options=options, **settings)
            try:
                writing.result()
            except BaseException:
                stop.set()
                pool.shutdown()
                _remove_new_files(store, before, location, options, existed=existing is not None)
                raise
        result.version = deltalake.DeltaTable(location, storage_options=options).version()
    except (DeltaError, OSError) as error:
        raise _refusal(error, result, location, max_rejected) from error
    return result


def stored_types(location: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """Return the Delta types of a table by column, "" for a nested type; empty if there is no table."""
    table = _open(location, dict(storage_options))
    types = {each.name: each.type for each in table.schema().fields} if table else {}
    return {name: type_.type.upper() if isinstance(type_, PrimitiveType) else "" for name, type_ in types.items()}


def _open_store(location: str, options: Mapping[str, str]) -> Any:
    if "://" not in location:
        return LocalStore(location, mkdir=True)
    config: Any = {name.lower(): value for name, value in options.items() if name != "AWS_ALLOW_HTTP"}
    return S3Store.from_url(location, config=config, client_options={"allow_http": "AWS_ALLOW_HTTP" in options})


def _open(location: str, options: dict[str, str]) -> deltalake.DeltaTable | None:
    exists = deltalake.DeltaTable.is_deltatable(location, storage_options=options)
    return deltalake.DeltaTable(location, storage_options=options) if exists else None


def _schema(files: FilePreview) -> pa.Schema:
    """Return the schema of the table; names that were replaced are comments."""
    query = f"FROM {read_columns(files.columns, files.relations[0])} LIMIT 0"
    empty = files.connection.sql(query).to_arrow_table().schema
    comments = [{"comment": each.original} if each.original not in {each.name, ""} else None for each in files.columns]
    types = [empty.field(f"v{number}").type for number in range(len(comments))]
    named = zip(files.columns, types, comments, strict=True)
    return pa.schema([pa.field(column.name, type_, metadata=comment) for column, type_, comment in named])


def _batches(
    files: FilePreview, result: LoadResult, max_rejected: int, progress: Callable[[int], object], stop: Event
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that fit; raises ValueError at the end if too many do not, KeyboardInterrupt after `stop`."""
    schema, done = _schema(files), 0
    values = ", ".join(f"v{number}" for number in range(len(schema)))
    checks = " ".join(f"WHEN s{n} IS NOT NULL AND v{n} IS NULL THEN {n}" for n in range(len(schema)))
    for number, relation in enumerate(files.relations):
        query = f"SELECT {values}, CASE {checks} END AS misfit FROM {read_columns(files.columns, relation)}"
        misfits: list[tuple[int, int]] = []
        start = done
        for batch in files.connection.sql(query).to_arrow_reader(_BATCH):
            if stop.is_set():
                raise KeyboardInterrupt
            marks, rows = batch.column("misfit"), pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)
            if marks.null_count < len(marks):
                new = [(done - start + row, mark) for row, mark in enumerate(marks.to_pylist()) if mark is not None]
                result.rejected += len(new)
                misfits += new[: _LISTED - len(misfits)]
                rows = rows.filter(marks.is_null())
            done += len(marks)
            result.rows += rows.num_rows
            progress(done)
            if result.rejected <= max_rejected and rows.num_rows:
                yield rows
        _list_rejected(files, number, misfits, result)
    if result.rejected > max_rejected:
        raise ValueError(f"{result.rejected} rows do not fit")


def _list_rejected(files: FilePreview, number: int, misfits: list[tuple[int, int]], result: LoadResult) -> None:
    """Count a file's malformed rows, and list its rejected rows with lines and reasons next to it."""
    path, table, columns = files.paths[number], files.tables[number], files.columns
    reasons = [f"{columns[mark].name} is not {columns[mark].delta_type}" for _, mark in misfits]
    entries = [(row + 1, reason, list[str]()) for (row, _), reason in zip(misfits, reasons, strict=True)]
    if table:
        malformed = files.connection.execute(
            "SELECT line_byte_position, any_value(lower(error_type)), any_value(csv_line) "
            f"FROM rejects_{number} GROUP BY ALL ORDER BY 1"
        ).fetchall()
        result.rejected += len(malformed)
        starts = [start + len(text) - len(text.lstrip("\r\n")) for start, _, text in malformed]
        broken = dict(zip(lines_at(table.path, starts), malformed, strict=True))
        places = read_records(table, [row for row, _ in misfits], broken) if misfits else ()
        entries = [(line, reason, cells) for (line, cells), reason in zip(places, reasons, strict=True)]
        entries += [(line, kind, [text.strip("\r\n")]) for line, (_, kind, text) in broken.items()]
    if entries:
        result.lists.append(path.with_name(f"{path.name}.rejected.csv"))
        with result.lists[-1].open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["line", "reason", *(column.original or column.name for column in columns)])
            writer.writerows([line, reason, *cells] for line, reason, cells in sorted(entries))
        line, reason, _ = min(entries)
        result.first_rejected = result.first_rejected or f"line {line} of {path.name}: {reason}"


def _objects(store: Any) -> set[str]:
    return {str(each["path"]) for page in obstore.list(store) for each in page}


def _remove_new_files(store: Any, before: set[str], location: str, options: dict[str, str], *, existed: bool) -> None:
    """Delete the files that a failed load wrote, unless another writer left new files in an existing table too."""
    with suppress(DeltaError, OSError):
        new = {path: match[1] for path in _objects(store) - before if (match := _DATA_FILE.search(path))}
        table = _open(location, options)
        active = {uri.rpartition("/")[2] for uri in table.file_uris()} if table else set()
        new = {path: writer for path, writer in new.items() if path.rpartition("/")[2] not in active}
        if not existed or len(set(new.values())) == 1:
            obstore.delete(store, list(new))


def _refusal(error: Exception, result: LoadResult, location: str, max_rejected: int) -> DeltaicError:
    status, lists = _STATUS.search(str(error)), ", ".join(path.name for path in result.lists)
    if result.rejected > max_rejected:
        number = f"{result.rejected:,} row{'s do' if result.rejected > 1 else ' does'}"
        refusal = (
            f"nothing was loaded: {number} not fit, first {result.first_rejected}. All are in {lists}: correct them, "
        )
        return InvalidParameter(f"{refusal}choose another type (--types), or use --max-rejected {result.rejected}")
    text = status[0] if status else str(error).splitlines()[0]
    if "already exists" in text or "conflict" in text.lower():
        return Conflict(f"another program changed the table at {location}: nothing was loaded, run the command again")
    if "schema" in text.lower() or "cast" in text.lower():
        return InvalidParameter(f"the columns differ from those of the table ({text}): use --types or --replace")
    return Unavailable(f"cannot write to {location} ({text}): check the location and your permissions")
