"""Read the rows of a shared table file by file, so that memory use is independent of the table's size."""

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
from delta_sharing_pull.progress import Progress
from delta_sharing_pull.snapshot import FEATURES, SharedFile, Snapshot
from delta_sharing_pull.table_files import download_file

READABLE_FEATURES: Final = tuple(name for name in FEATURES if not name.startswith(("variantShredding", "geospatial")))
"""Table features that the Delta library of the `delta-sharing` package can read."""


class TableRows:
    """The rows of one version of a shared table, optionally with only selected columns."""

    def __init__(self, snapshot: Snapshot, columns: Sequence[str] = ()) -> None:
        """Read the table's schema; raises InvalidParameter if a selected column does not exist."""
        self._snapshot = snapshot
        with tempfile.TemporaryDirectory(prefix="deltaic-pull-") as folder:
            schema = self._scan(Path(folder), None).schema
        positions = {name.lower(): position for position, name in enumerate(schema.names)}
        if unknown := [name for name in columns if name.lower() not in positions]:
            raise InvalidParameter(f"Column '{unknown[0]}' does not exist: use {', '.join(schema.names)}")
        self._positions = [positions[name.lower()] for name in columns] or list(range(len(schema)))
        self.schema = pa.schema([_writable(schema.field(position)) for position in self._positions])
        """Arrow schema of the selected columns, without Delta's field metadata."""
        fields = {field["name"]: field["type"] for field in json.loads(snapshot.metadata["schemaString"])["fields"]}
        self.types: Mapping[str, Any] = {name: fields.get(name) for name in self.schema.names}
        """Delta types of the selected columns, by name."""

    def batches(self, progress: Progress, limit: int | None = None) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows in batches, at most `limit` rows; raises UnsupportedOperation if the rows cannot be read."""
        files, remaining = self._snapshot.files, limit
        progress.expect(len(files), sum(file.size for file in files))
        with tempfile.TemporaryDirectory(prefix="deltaic-pull-") as folder:

            def download(item: tuple[int, SharedFile]) -> tuple[Path, SharedFile]:
                number, file = item
                file_folder = Path(folder) / str(number)
                file_folder.mkdir()
                download_file(self._snapshot, file, file_folder, file_folder, progress)
                return file_folder, file

            with progress.parallel(enumerate(files), download) as results:
                while (remaining is None or remaining > 0) and (result := next(results, None)):
                    file_folder, file = result
                    for batch in self._read(file_folder, file):
                        rows = batch if remaining is None else batch.slice(0, remaining)
                        remaining = None if remaining is None else remaining - len(rows)
                        yield rows
                    shutil.rmtree(file_folder)

    def _read(self, folder: Path, file: SharedFile) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._scan(folder, file):
                pairs = zip(self._positions, self.schema.types, strict=True)
                columns = [batch.column(position).cast(kind) for position, kind in pairs]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(error) from None

    def _scan(self, folder: Path, file: SharedFile | None) -> Any:
        """Create a local Delta log with at most this data file, and return a reader of its rows."""
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


def _writable(field: Any) -> Any:
    """Remove Delta's metadata from an Arrow field and make struct fields nullable, as pyarrow's writer requires."""
    kind: Any = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_writable(child).with_nullable(nullable=True) for child in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_writable(field.type.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_writable(kind.key_field), _writable(kind.item_field))
    return pa.field(field.name, kind, field.nullable)


def _unreadable(error: Exception) -> UnsupportedOperation:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return UnsupportedOperation(
        f"Cannot read the rows of this table ({reason}): download it as a Delta table, to a folder that ends with /"
    )
