"""Local Delta table that is a copy of a shared table. Each commit copies one version of the source.

A commit adds the files that are new in the source, removes those that it no longer lists, and records the version of
the source (Delta's `txn`). Files are compared by key and no rows are read, so the copy has exactly the rows of the
source, with duplicates. An interrupted download changes nothing that readers see.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from delta_sharing_pull.errors import Conflict, InvalidParameter, NotFound
from delta_sharing_pull.folder_lock import STATE_FOLDER
from delta_sharing_pull.local_log import LOG, commit_name, commit_text, local_metadata, local_protocol
from delta_sharing_pull.responses import column_types
from delta_sharing_pull.server import SharedName
from delta_sharing_pull.snapshot import SharedFile, Snapshot, logical_file

_APP_ID: Final = "deltaic-pull/"


@dataclass
class DeltaCopy:
    """State of a copy of a shared table, read from the copy's Delta log."""

    folder: Path
    version: int = -1
    """Version of the copy's own Delta log; -1 before the first commit."""
    source: str = ""
    """Full name of the source table in lower case; empty if the folder contains no copy."""
    source_version: int = -1
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    files: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """Current `add` actions of the copy, by the key that `snapshot.logical_file` returns."""

    @classmethod
    def read(cls, folder: Path, name: SharedName) -> "DeltaCopy":
        """Read the copy of a shared table in a folder, which can be empty or missing.

        Raises InvalidParameter if the folder contains a copy of another table, a Delta table that is not a copy, or
        other files; NotFound if files of the Delta log are missing.
        """
        copy = cls(folder)
        for version, path in enumerate(sorted((folder / LOG).glob("?" * 20 + ".json"))):
            if path.name != commit_name(version):
                raise NotFound(f"The Delta log in {folder} has no version {version}: download to a new folder")
            copy.version = version
            for line in path.read_bytes().splitlines():
                copy._apply(json.loads(line))
        if copy.version < 0 and not (folder / STATE_FOLDER).is_dir() and folder.is_dir() and any(folder.iterdir()):
            raise InvalidParameter(f"{folder} has other files and is not a copy: use a new folder")
        if copy.version >= 0 and copy.source != str(name).lower():
            content = f"a copy of {copy.source}" if copy.source else "a table that this program did not write"
            raise InvalidParameter(f"{folder} has {content}: use a new folder")
        return copy

    def _apply(self, action: Mapping[str, Any]) -> None:
        for kind, fields in action.items():
            match kind:
                case "add":
                    self.files[logical_file(fields)] = fields
                case "remove":
                    self.files.pop(logical_file(fields), None)
                case "protocol":
                    self.protocol = fields
                case "metaData":
                    self.metadata = fields
                case "txn" if fields["appId"].startswith(_APP_ID):
                    self.source, self.source_version = fields["appId"].removeprefix(_APP_ID), fields["version"]

    def check_compatible(self, snapshot: Snapshot) -> None:
        """Raise InvalidParameter if the snapshot is earlier than the copy and has another type for a column.

        deltalake could not read the log, because it parses the statistics of removed files with the current type.
        """
        if snapshot.version >= self.source_version:
            return
        current, earlier = (column_types(fields["schemaString"]) for fields in (self.metadata, snapshot.metadata))
        for column in sorted(current.keys() & earlier.keys()):
            if current[column] != earlier[column]:
                raise InvalidParameter(
                    f"{self.folder} has version {self.source_version}, in which {column} is {current[column]}, and "
                    f"cannot return to version {snapshot.version}, in which it is {earlier[column]}: use a new folder"
                )

    def is_missing(self, file: SharedFile) -> bool:
        """Return whether the data file or its deletion vector must still be downloaded."""
        data, vector = self.folder / file.data_name, self.folder / file.vector_name
        return not (data.is_file() and data.stat().st_size == file.size and vector.exists())

    def commit(self, snapshot: Snapshot, name: SharedName) -> bool:
        """Commit a snapshot of the source whose files are all downloaded, and return whether the copy changed.

        Raises Conflict if another process has committed since `read`.
        """
        adds = {logical_file(file.add): file.add for file in snapshot.files}
        protocol, metadata = local_protocol(snapshot.protocol), local_metadata(snapshot.metadata)
        now = round(time.time() * 1000)
        actions: list[dict[str, Any]] = []
        if protocol != self.protocol:
            actions.append({"protocol": protocol})
        if metadata != self.metadata:
            actions.append({"metaData": metadata})
        actions += [{"remove": _remove_action(add, now)} for key, add in self.files.items() if key not in adds]
        before = {key: add["partitionValues"] for key, add in self.files.items()}  # can change in Iceberg tables
        actions += [{"add": add} for key, add in adds.items() if before.get(key) != add["partitionValues"]]
        source = str(name).lower()
        if not actions and snapshot.version == self.source_version:
            return False
        actions.append({"txn": {"appId": f"{_APP_ID}{source}", "version": snapshot.version, "lastUpdated": now}})
        info = {"timestamp": now, "operation": "PULL", "operationParameters": {"version": str(snapshot.version)}}
        self._write_commit([{"commitInfo": info}, *actions])
        return True

    def _write_commit(self, actions: list[dict[str, Any]]) -> None:
        log = self.folder / LOG
        log.mkdir(exist_ok=True)
        target, temporary = log / commit_name(self.version + 1), log / f".{commit_name(self.version + 1)}.tmp"
        with temporary.open("wb") as file:
            file.write(commit_text(actions))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            raise Conflict(f"Another process wrote to {self.folder}: download again")
        temporary.replace(target)


def _remove_action(add: Mapping[str, Any], now: int) -> dict[str, Any]:
    fields = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
    return {**fields, "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
