"""A shared table as a Delta table, a Parquet file or a CSV file of this disk."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from delta_sharing_pull.delta_copy import DeltaCopy
from delta_sharing_pull.folder_lock import alone
from delta_sharing_pull.patience import patiently
from delta_sharing_pull.reading import READABLE, TableRows
from delta_sharing_pull.row_files import write_csv, write_parquet
from delta_sharing_pull.server import Shared, SharingServer
from delta_sharing_pull.snapshot import Snapshot, SourceMoved
from delta_sharing_pull.table_files import fetch_file
from delta_sharing_pull.tally import Tally

_AT_ONCE: Final = (0.0,) * 4
"""A table may move on so fast that the files of its version are gone before they are fetched."""


@dataclass(frozen=True)
class PulledTable:
    """What came of a pull."""

    version: int
    """The source's."""
    changed: bool
    """Whether anything is other than before."""
    files: int
    rows: int | None = None
    """Of a Parquet or CSV file."""


class TablePull:
    """A table, and what is asked of it: the request's `version`, `timestamp` or `limitHint`, if any."""

    def __init__(self, server: SharingServer, shared: Shared, asked: Mapping[str, Any]) -> None:
        self._server = server
        self._shared = shared
        self._asked = asked

    def into_folder(self, folder: Path, tally: Tally) -> PulledTable:
        """Bring a Delta table in a folder to what is asked, by one commit; what an earlier pull has brought stays.

        Raises Conflict, InvalidParameter and NotFound for a folder that is held, is no copy of this table, or
        cannot go back to what is asked.
        """
        DeltaCopy.read(folder, self._shared)  # refuses before anything is written

        def once() -> PulledTable:
            snapshot = Snapshot(self._server, self._shared, self._asked)
            with alone(folder) as own:
                copy = DeltaCopy.read(folder, self._shared)
                copy.check_follows(snapshot)
                lacking = [file for file in snapshot.files if copy.lacks(file)]
                tally.expect(len(lacking), sum(file.size for file in lacking))
                with tally.ahead(lacking, lambda file: fetch_file(snapshot, file, folder, own, tally)) as arriving:
                    for _ in arriving:
                        pass
                changed = copy.follow(snapshot, self._shared)
                for part in own.glob("*.*"):
                    part.unlink()
                return PulledTable(snapshot.version, changed, len(snapshot.files))

        return patiently(once, _AT_ONCE, SourceMoved)

    def into_file(self, target: Path, kind: str, tally: Tally, columns: Sequence[str] = ()) -> PulledTable:
        """Write rows into a file, `kind` parquet or csv, which is replaced at once when the new one is whole.

        Raises InvalidParameter for a column that is not there, UnsupportedOperation for what cannot be read or written.
        """

        def once() -> PulledTable:
            snapshot = Snapshot(self._server, self._shared, self._asked, READABLE)
            rows = TableRows(snapshot, columns)
            with closing(rows.batches(tally, self._asked.get("limitHint"))) as batches:
                if kind == "csv":
                    count = write_csv(rows, batches, target)
                else:
                    told = {"deltaic.source": str(self._shared), "deltaic.version": str(snapshot.version)}
                    count = write_parquet(rows, batches, target, told)
            return PulledTable(snapshot.version, changed=True, files=len(snapshot.files), rows=count)

        return patiently(once, _AT_ONCE, SourceMoved)
