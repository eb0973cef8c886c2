"""Download a shared table as a Delta table, a Parquet file or a CSV file."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from delta_sharing_pull.delta_copy import DeltaCopy
from delta_sharing_pull.errors import InvalidParameter
from delta_sharing_pull.folder_lock import lock_folder
from delta_sharing_pull.progress import Progress
from delta_sharing_pull.retries import retry
from delta_sharing_pull.server import SharedName, SharingServer
from delta_sharing_pull.snapshot import Snapshot, SourceChanged
from delta_sharing_pull.table_files import download_file

_NO_PAUSES: Final = (0.0,) * 4
"""Pauses in seconds before a download is repeated because files of the requested version were deleted meanwhile."""


@dataclass(frozen=True)
class TableResult:
    """Result of one download of a table. Its fields are the output of `--json`."""

    version: int
    """Downloaded version of the source table."""
    changed: bool
    """Whether the download changed the target."""
    files: int
    rows: int | None = None
    """Number of rows in a Parquet or CSV file; None for a Delta table."""
    formulas: int | None = None
    """Number of texts in a CSV file that a spreadsheet can run as a formula."""


class TableDownload:
    """Download of one shared table. `options` are query fields: `version`, `timestamp` or `limitHint`."""

    def __init__(self, server: SharingServer, name: SharedName, options: Mapping[str, Any]) -> None:
        self._server = server
        self._name = name
        self._options = options

    def to_delta(self, folder: Path, progress: Progress) -> TableResult:
        """Update the Delta table in a folder to the requested version, in one commit.

        Raises Conflict if the folder is locked, InvalidParameter if the folder has other content or
        the copy in it cannot return to the requested version, and NotFound if the copy's Delta log is incomplete.
        """
        DeltaCopy.read(folder, self._name)  # validates the folder before anything is written

        def download() -> TableResult:
            snapshot = Snapshot(self._server, self._name, self._options)
            with lock_folder(folder) as state_folder:
                copy = DeltaCopy.read(folder, self._name)
                copy.check_compatible(snapshot)
                missing = [file for file in snapshot.files if copy.is_missing(file)]
                progress.expect(len(missing), sum(file.size for file in missing))
                with progress.parallel(
                    missing, lambda file: download_file(snapshot, file, folder, state_folder, progress)
                ) as results:
                    list(results)
                changed = copy.commit(snapshot, self._name)
                for partial in state_folder.glob("*.*"):
                    partial.unlink()
                return TableResult(snapshot.version, changed, len(snapshot.files))

        return retry(download, _NO_PAUSES, SourceChanged)

    def to_file(
        self, target: Path, file_format: str, progress: Progress, columns: Sequence[str], guard_formulas: bool
    ) -> TableResult:
        """Write the rows to a `parquet` or `csv` file, which replaces the target when complete.

        Raises InvalidParameter for an unknown column or an impossible target, UnsupportedOperation if rows cannot be
        read or written.
        """
        if not target.parent.is_dir():
            raise InvalidParameter(f"Folder {target.parent} does not exist: create it, or choose another target")
        if target.is_dir():
            raise InvalidParameter(f"{target} is a folder: name a file, which --format {file_format} writes")
        from delta_sharing_pull.row_files import write_csv, write_parquet  # imported late: a Delta copy needs no Arrow
        from delta_sharing_pull.table_rows import READABLE_FEATURES, TableRows

        def download() -> TableResult:
            snapshot = Snapshot(self._server, self._name, self._options, READABLE_FEATURES)
            rows = TableRows(snapshot, columns)
            with closing(rows.batches(progress, self._options.get("limitHint"))) as batches:
                if file_format == "csv":
                    count, formulas = write_csv(rows, batches, target, guard_formulas=guard_formulas)
                else:
                    metadata = {"deltaic.source": str(self._name), "deltaic.version": str(snapshot.version)}
                    count, formulas = write_parquet(rows, batches, target, metadata), None
            return TableResult(snapshot.version, changed=True, files=len(snapshot.files), rows=count, formulas=formulas)

        return retry(download, _NO_PAUSES, SourceChanged)
