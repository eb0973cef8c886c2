"""Measures what Iceberg metadata costs: `uv run python -m bench.iceberg [--files 100000] [--strict]`.

Files as in `tables.py`, of which three columns have bounds: a count, a random double, a random text. CPU seconds of
this process, the least of some rounds, once the log is read: seconds on a clock would be those of whoever else is
busy. Beside it pyiceberg writes the same metadata itself, and plans over both.
"""

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltaic.delta.actions import Add
from deltaic.delta.replay import batch_of
from deltaic.iceberg.file_index import FileIndex
from deltaic.iceberg.generation import first_index, newer_index
from deltaic.iceberg.table_document import table_document
from deltaic.iceberg.table_version import Means, TableVersion
from deltaic.storage.locations import TableLocations
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record

from bench import tables
from bench.figures import Figure, files_named, least, table

COLUMNS = ("c0", "c1", "c3")
CHANGED = 10
PLANNED = 10_000
ROUNDS = 3
_BATCH = 4096
_BARS = {"first": 5.0, "commit": 0.5, "unchanged": 0.15, "plan": 0.2, "bytes": 120.0}


class _Footers:
    """Stands for the store: each data file has the same small footer."""

    def __init__(self) -> None:
        held = io.BytesIO()
        pq.write_table(pa.table({"c0": pa.nulls(1, pa.int64())}), held)
        self._file = held.getvalue()

    def get_tail(self, _path: str, length: int) -> tuple[bytes, int]:
        return self._file[-length:], len(self._file)


class Made:
    """A table's files, and where metadata of them goes."""

    def __init__(self, files: int, folder: Path) -> None:
        self.files = files
        self.folder = folder
        self.put: dict[str, bytes] = {}
        adds = [msgspec.json.decode(json.dumps(tables.add(at, files)), type=Add) for at in range(files + CHANGED)]
        self.before = list(_batches(adds[:files]))
        gone = {at * (files // CHANGED + 1) for at in range(CHANGED)}  # each of another partition
        self.after = list(_batches([one for at, one in enumerate(adds) if at not in gone]))
        self.metadata = _metadata()
        self.means = Means(
            f"file://{folder}",
            self.put.__setitem__,
            TableLocations.parse("s3://bench/table").uris,
            _Footers(),  # type: ignore[arg-type]  # of the store only this is asked
        )

    def first(self) -> FileIndex:
        """Make all of it."""
        return first_index(self.means, TableVersion(0, 1, self.metadata, lambda: self.before))

    def commit(self, data: bytes) -> FileIndex:
        """Make what a commit of ten files changes, each in another manifest."""
        return newer_index(self.means, TableVersion(1, 2, self.metadata, lambda: self.after), FileIndex.decode(data))

    def document(self, data: bytes) -> bytes:
        """Make the answer to who asks again."""
        return msgspec.json.encode(table_document(self.means, "bench", FileIndex.decode(data)))

    def written(self) -> Path:
        """Put what was made into the folder and return the metadata's path."""
        data = self.first().encode()
        for key, content in self.put.items():
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        document = self.folder / "table.metadata.json"
        document.write_bytes(self.document(data))
        return document


def _batches(adds: Sequence[Add]) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(adds), _BATCH):
        yield batch_of(adds[at : at + _BATCH], "bench")


class _Metadata(msgspec.Struct, frozen=True):
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]


def _metadata() -> _Metadata:
    whole: Any = tables.metadata()
    schema = json.loads(whole["schemaString"])
    schema["fields"] = [one for one in schema["fields"] if one["name"] in {*COLUMNS, "date"}]
    return _Metadata(json.dumps(schema), whole["partitionColumns"], {})


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a piece of work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _theirs(document: Path, folder: Path) -> tuple[float, int, Path]:
    """Write the same metadata by pyiceberg: CPU seconds and bytes of the manifests, and the path of the document."""
    read = StaticTable.from_metadata(str(document))
    snapshot = read.current_snapshot()
    assert snapshot is not None  # noqa: S101 -- the table has files
    groups = [list(map(_copied, one.fetch_manifest_entry(read.io))) for one in snapshot.manifests(read.io)]
    written: list[ManifestFile] = []

    def write() -> None:
        written.clear()
        for number, entries in enumerate(groups):
            output = PyArrowFileIO().new_output(str(folder / f"theirs-{number}.avro"))
            with write_manifest(2, read.spec(), read.schema(), output, snapshot.snapshot_id, "deflate") as writer:
                for entry in entries:
                    writer.add_entry(entry)
            written.append(writer.to_manifest_file())

    took = least(lambda: cpu(write), ROUNDS)
    listed = folder / "theirs.list.avro"
    output = PyArrowFileIO().new_output(str(listed))
    with write_manifest_list(2, output, snapshot.snapshot_id, None, 1, "deflate") as writer:
        writer.add_manifests(written)
    said = json.loads(document.read_bytes())
    said["snapshots"][-1]["manifest-list"] = str(listed)
    theirs = folder / "theirs.metadata.json"
    theirs.write_text(json.dumps(said))
    return took, sum(one.manifest_length for one in written), theirs


def _copied(entry: ManifestEntry) -> ManifestEntry:
    """Return an entry as a writer takes it: what was read of it knows where it came from."""
    read = entry.data_file
    file = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=read.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(read.partition[0]),
        record_count=read.record_count,
        file_size_in_bytes=read.file_size_in_bytes,
        null_value_counts=read.null_value_counts,
        lower_bounds=read.lower_bounds,
        upper_bounds=read.upper_bounds,
    )
    file.spec_id = read.spec_id
    return ManifestEntry.from_args(
        _table_format_version=2, status=ManifestEntryStatus.ADDED, snapshot_id=entry.snapshot_id, data_file=file
    )


def measured(files: int, folder: Path) -> Iterator[Figure]:
    """Measure a table of so many files, and plans of one of ten thousand."""
    subject = files_named(files)
    made = Made(files, folder / "all")
    yield Figure(subject, "first metadata", least(lambda: cpu(made.first), ROUNDS), "s", _BARS["first"])
    data = made.first().encode()
    size = len(data) + sum(map(len, made.put.values()))
    yield Figure(subject, "metadata, a file", size / files, "B", _BARS["bytes"])
    yield Figure(
        subject, "asked again", least(lambda: cpu(lambda: made.document(data)), ROUNDS), "s", _BARS["unchanged"]
    )
    before = dict(made.put)
    took = least(lambda: cpu(lambda: made.commit(data)), ROUNDS)
    yield Figure(subject, f"after a commit of {CHANGED} files", took, "s", _BARS["commit"])
    fresh = sum(len(content) for key, content in made.put.items() if key not in before)
    yield Figure(subject, f"put after a commit of {CHANGED} files", fresh / 1e6, "MB")
    small = Made(PLANNED, folder / "some")
    document = small.written()
    ours = least(lambda: cpu(small.first), ROUNDS)
    theirs, their_size, their_document = _theirs(document, small.folder)
    our_size = sum(len(content) for key, content in small.put.items() if key.startswith("m/"))
    subject, rival = files_named(PLANNED), "pyiceberg's own"
    yield Figure(subject, "manifests", ours, "s", rival=rival, theirs=theirs)
    yield Figure(subject, "manifests", our_size / 1e6, "MB", rival=rival, theirs=their_size / 1e6)
    # What is left to pyiceberg when the metadata is its own is what such a plan takes at the least.
    for label, what, bar in (
        ("pyiceberg plans one file, by partition and bounds", "date = '2024-01-03' and c0 = 20", _BARS["plan"]),
        ("by bounds alone, so that it reads all manifests", "c0 = 20", None),
    ):
        took, floor = (least(partial(cpu, partial(_planned, one, what)), ROUNDS) for one in (document, their_document))
        yield Figure(subject, label, took, "s", bar, rival="over pyiceberg's own", theirs=floor)


def _planned(document: Path, what: str) -> None:
    found = list(StaticTable.from_metadata(str(document)).scan(row_filter=what).plan_files())
    if len(found) != 1:
        raise RuntimeError(f"{what} plans {len(found)} files")


def main() -> int:
    """Measure and print; exits 1 if a bar was missed and `--strict` was said."""
    parser = argparse.ArgumentParser(prog="bench.iceberg", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is missed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = list(measured(options.files, Path(folder)))
    print(table(figures))
    return int(options.strict and any(one.holds is False for one in figures))


if __name__ == "__main__":
    sys.exit(main())
