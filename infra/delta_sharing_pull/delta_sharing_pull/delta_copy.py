"""A Delta table on this disk that is kept in step with a shared one, by files: each commit is a version of the source.

The files of two snapshots are compared: what went is removed, what came is fetched and added, in one commit that also
says which version of the source it is (Delta's `txn`). So rows are those of the source as a multiset, whatever made
them, no row is read or compared, and a pull that was killed anywhere has changed nothing that readers see.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from delta_sharing_pull.answers import column_types
from delta_sharing_pull.errors import Conflict, InvalidParameter, NotFound
from delta_sharing_pull.folder_lock import OWN
from delta_sharing_pull.local_log import LOG, commit_name, commit_text, local_metadata, local_protocol
from delta_sharing_pull.server import Shared
from delta_sharing_pull.snapshot import SharedFile, Snapshot, logical_file

_APP: Final = "deltaic-pull/"


@dataclass
class DeltaCopy:
    """What the copy's log says."""

    folder: Path
    version: int = -1
    """The copy's own version; -1 before the first commit."""
    source: str = ""
    """The table of which it is a copy, in lower case."""
    source_version: int = -1
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    files: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """The live `add` of each logical file."""

    @classmethod
    def read(cls, folder: Path, shared: Shared) -> "DeltaCopy":
        """Read the copy in a folder, which may be empty or absent.

        Raises InvalidParameter for a folder with anything else: another table, a copy of another one, files;
        NotFound for a log that somebody has cut.
        """
        found = cls(folder)
        for version, path in enumerate(sorted((folder / LOG).glob("?" * 20 + ".json"))):
            if path.name != commit_name(version):
                raise NotFound(f"the log in {folder} has lost version {version}: pull into another folder")
            found.version = version
            for line in path.read_bytes().splitlines():
                found._apply(json.loads(line))
        if found.version < 0 and not (folder / OWN).is_dir() and folder.is_dir() and any(folder.iterdir()):
            raise InvalidParameter(f"{folder} has files that are no copy: name a new folder")
        if found.version >= 0 and found.source != str(shared).lower():
            of = f"a copy of {found.source}" if found.source else "a table of somebody else's"
            raise InvalidParameter(f"{folder} is {of}: name a new folder")
        return found

    def _apply(self, action: Mapping[str, Any]) -> None:
        for kind, told in action.items():
            match kind:
                case "add":
                    self.files[logical_file(told)] = told
                case "remove":
                    self.files.pop(logical_file(told), None)
                case "protocol":
                    self.protocol = told
                case "metaData":
                    self.metadata = told
                case "txn" if told["appId"].startswith(_APP):
                    self.source, self.source_version = told["appId"].removeprefix(_APP), told["version"]

    def check_follows(self, snapshot: Snapshot) -> None:
        """Raise InvalidParameter for an earlier version in which a column has another type than here.

        A log that goes back so is read by no deltalake: it takes bounds of removed files for values of the new type.
        """
        if snapshot.version >= self.source_version:
            return
        here, there = (column_types(told["schemaString"]) for told in (self.metadata, snapshot.metadata))
        for column in sorted(here.keys() & there.keys()):
            if here[column] != there[column]:
                raise InvalidParameter(
                    f"{self.folder} has version {self.source_version}, in which {column} is {here[column]}, and cannot "
                    f"go back to version {snapshot.version}, where it was {there[column]}: name a new folder"
                )

    def lacks(self, file: SharedFile) -> bool:
        """Tell whether a file, or its vector's, is not on this disk as it should be."""
        data, vector = self.folder / file.data_name, self.folder / file.vector_name
        return not (data.is_file() and data.stat().st_size == file.size and vector.exists())

    def follow(self, snapshot: Snapshot, shared: Shared) -> bool:
        """Commit a snapshot whose files are all here; returns whether there was anything to commit.

        Raises Conflict where another has committed meanwhile.
        """
        wanted = {logical_file(file.add): file.add for file in snapshot.files}
        protocol, metadata = local_protocol(snapshot.protocol), local_metadata(snapshot.metadata)
        now = round(time.time() * 1000)
        actions: list[dict[str, Any]] = []
        if protocol != self.protocol:
            actions.append({"protocol": protocol})
        if metadata != self.metadata:
            actions.append({"metaData": metadata})
        actions += [{"remove": _removed(add, now)} for key, add in self.files.items() if key not in wanted]
        actions += [{"add": add} for key, add in wanted.items() if key not in self.files]
        source = str(shared).lower()
        if not actions and snapshot.version == self.source_version:
            return False
        actions.append({"txn": {"appId": f"{_APP}{source}", "version": snapshot.version, "lastUpdated": now}})
        told = {"timestamp": now, "operation": "PULL", "operationParameters": {"version": str(snapshot.version)}}
        self._commit([{"commitInfo": told}, *actions])
        return True

    def _commit(self, actions: list[dict[str, Any]]) -> None:
        log = self.folder / LOG
        log.mkdir(exist_ok=True)
        target, fresh = log / commit_name(self.version + 1), log / f".{commit_name(self.version + 1)}.tmp"
        with fresh.open("wb") as file:
            file.write(commit_text(actions))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            raise Conflict(f"{self.folder} was written to by somebody else: pull again")
        fresh.replace(target)


def _removed(add: Mapping[str, Any], now: int) -> dict[str, Any]:
    told = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
    return {**told, "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
