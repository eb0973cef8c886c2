"""The rows of a shared table, read file by file by the published client's Delta library: flat in memory and on disk."""

import json
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import delta_kernel_rust_sharing_wrapper as kernel  # type: ignore[import-untyped]
import pyarrow as pa

from delta_sharing_pull.errors import InvalidParameter, UnsupportedOperation
from delta_sharing_pull.local_log import LOG, commit_name, commit_text, local_metadata, local_protocol
from delta_sharing_pull.snapshot import FEATURES, SharedFile, Snapshot
from delta_sharing_pull.table_files import fetch_file
from delta_sharing_pull.tally import Tally

READABLE: Final = tuple(name for name in FEATURES if not name.startswith("variantShredding"))
"""The features that the library reads."""


class TableRows:
    """The rows of a snapshot."""

    def __init__(self, snapshot: Snapshot, columns: Sequence[str] = ()) -> None:
        """Read what its columns are; raises InvalidParameter for a column that is not there."""
        self._snapshot = snapshot
        with tempfile.TemporaryDirectory(prefix="deltaic-pull-") as folder:
            whole = self._scan(Path(folder), None).schema
        found = {name.lower(): at for at, name in enumerate(whole.names)}
        if missing := [name for name in columns if name.lower() not in found]:
            raise InvalidParameter(f"there is no column '{missing[0]}': there are {', '.join(whole.names)}")
        self._at = [found[name.lower()] for name in columns] or list(range(len(whole)))
        self.schema = pa.schema([_plain(whole.field(at)) for at in self._at])
        """The columns, without what Delta says of them besides."""
        fields = {field["name"]: field["type"] for field in json.loads(snapshot.metadata["schemaString"])["fields"]}
        self.types: Mapping[str, Any] = {name: fields.get(name) for name in self.schema.names}
        """Delta's own type of each column."""

    def batches(self, tally: Tally, left: int | None = None) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows, at most so many; raises UnsupportedOperation for what the library cannot read."""
        files = self._snapshot.files
        tally.expect(len(files), sum(file.size for file in files))
        with tempfile.TemporaryDirectory(prefix="deltaic-pull-") as folder:

            def fetch(numbered: tuple[int, SharedFile]) -> tuple[Path, SharedFile]:
                number, file = numbered
                place = Path(folder) / str(number)
                place.mkdir()
                fetch_file(self._snapshot, file, place, place, tally)
                return place, file

            with tally.ahead(enumerate(files), fetch) as arriving:
                while (left is None or left > 0) and (arrived := next(arriving, None)):
                    place, file = arrived
                    for batch in self._read(place, file):
                        taken = batch if left is None else batch.slice(0, left)
                        left = None if left is None else left - len(taken)
                        yield taken
                    shutil.rmtree(place)

    def _read(self, folder: Path, file: SharedFile) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._scan(folder, file):
                columns = [batch.column(at).cast(kind) for at, kind in zip(self._at, self.schema.types, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(error) from None

    def _scan(self, folder: Path, file: SharedFile | None) -> Any:
        """Return a reader of a table of one file, or of none."""
        (folder / LOG).mkdir()
        actions: list[Mapping[str, Any]] = [
            {"protocol": local_protocol(self._snapshot.protocol)},
            {"metaData": local_metadata(self._snapshot.metadata)},
            *([{"add": file.add}] if file else []),
        ]
        (folder / LOG / commit_name(0)).write_bytes(commit_text(actions))
        try:
            interface = kernel.PythonInterface(folder.as_uri())
            return kernel.ScanBuilder(kernel.Table(folder.as_uri()).snapshot(interface)).build().execute(interface)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(error) from None


def _plain(field: Any) -> Any:
    """Return a column without Delta's own notes, whose structs may be null: pyarrow writes none with what must not."""
    kind = told = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_plain(inner).with_nullable(nullable=True) for inner in told])
    elif pa.types.is_list(kind):
        kind = pa.list_(_plain(told.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_plain(told.key_field), _plain(told.item_field))
    return pa.field(field.name, kind, field.nullable)


def _unreadable(error: Exception) -> UnsupportedOperation:
    why = str(error).partition("\n")[0] or type(error).__name__
    return UnsupportedOperation(
        f"rows of this table cannot be read here ({why}): pull it as a folder, with a / at its end"
    )
