"""State of the embedded AWS on disk: saved every second and at the end, and no write answered that has no room.

MiniStack writes objects at once, logs a failure and goes on; tables, secrets and roles it writes only when it stops.
Here a write is refused, in its service's form, while the disk is almost full or the last save failed (decision 194).
"""

import asyncio
import errno
import json
import logging
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from ministack import app as ministack
from ministack.core import persistence
from ministack.core.responses import error_response_json
from ministack.services import iam, s3

from deltaic_ops.local.private import write_private

logger = logging.getLogger(__name__)

FILE: Final = "state.json"
FORMAT: Final = 2
KEPT: Final = ("dynamodb", "iam", "kms", "s3", "secretsmanager")
"""The services whose changes are saved every second; the others are saved at the end."""

SAVE_SECONDS: Final = 1.0
ROOM: Final = 1 << 20
"""Bytes that a write leaves free on the disk, besides room for the next save."""
ESCAPED: Final = 3
"""A request's text is at most so many times as long in the state, where letters are escaped."""

_READS: Final = ("get", "head", "batchget", "transactget", "query", "scan", "describe", "list", "sign", "verify")

Answer = tuple[int, dict[str, str], bytes]


class StateDamaged(Exception):
    """The state on disk cannot be read; the message names the file. Nothing was changed."""


class SavedState:
    """What MiniStack's services hold, in one file of a folder. One process at a time may have it (state.py)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._services: dict[str, str] = {}
        """Each service's state as JSON, as it was when the service last changed."""
        self._changed: set[str] = set()
        self._growth = 0
        """By how many bytes the state may have grown since the last save."""
        self._failure = ""
        """Why the last save failed."""
        self._lost: list[OSError] = []
        """Why objects of the request that is being answered were not written."""

    def load(self) -> None:
        """Bring MiniStack to the state on disk, and keep its changes from now on; raises StateDamaged, OSError."""
        folder = self._file.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for unfinished in folder.glob(f"{FILE}.*.new"):  # of saves that a kill has ended
            unfinished.unlink()
        if self._file.exists():
            self._restore(self._file.read_bytes())
        elif any(folder.glob("*.json*")):
            raise self._damaged("was written by an earlier Deltaic", folder)
        for name in KEPT:
            module = ministack._get_module(name)  # noqa: SLF001 -- the services' handlers have no other place
            module.handle_request = self._kept(name, module.handle_request)
        s3._atomic_write = self._write_object(s3._atomic_write)  # noqa: SLF001 -- as above

    async def save_regularly(self) -> None:
        """Save what has changed, every second, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            changed, self._changed, self._growth = self._changed, set(), 0
            if not changed:
                continue
            try:
                # In a thread: a busy disk takes seconds, and readers need not wait for it.
                await asyncio.to_thread(write_private, self._file, self._rendered(changed))
                self._failure = ""
            except Exception as error:  # whatever it is, no write may be answered as if it were kept
                self._changed |= changed
                self._failure = f"{self._file} cannot be written ({error})"
                logger.exception("the state cannot be saved, so writes are refused")

    def save(self) -> None:
        """Save the state of all services; raises OSError."""
        write_private(self._file, self._rendered(()))

    def _restore(self, content: bytes) -> None:
        try:
            saved = json.loads(content, object_hook=persistence._json_object_hook)  # noqa: SLF001 -- MiniStack's own form
            newer = saved["format"] > FORMAT or [
                name
                for name, service in saved["services"].items()
                if service["version"] > persistence._state_format_version(name)  # noqa: SLF001 -- as MiniStack loads itself
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"cannot be read ({type(error).__name__}: {error})", self._file) from None
        if newer:
            raise self._damaged("was written by a newer Deltaic", self._file)
        for name, service in saved["services"].items():
            ministack._get_module(ministack._state_map[name]).load_persisted_state(service["payload"])  # noqa: SLF001

    def _rendered(self, names: Collection[str]) -> str:
        """Return the state with that of these services anew, by default of all, and that of the others as it was."""
        for name, get_state in ministack._build_persistence_save_dict().items():  # noqa: SLF001 -- as MiniStack saves itself
            again = not names or name in names or name not in self._services
            if again and (state := get_state()) is not None:
                service = {"version": persistence._state_format_version(name), "payload": state}  # noqa: SLF001 -- as above
                self._services[name] = json.dumps(service, default=persistence._json_default)  # noqa: SLF001 -- as above
        services = ",".join(f'"{name}":{state}' for name, state in self._services.items())
        return f'{{"format":{FORMAT},"services":{{{services}}}}}'

    def _require_room(self, size: int) -> None:
        """Raise OSError if so many bytes and the next save would not fit on the disk, or the last save failed."""
        needed = sum(map(len, self._services.values())) + self._growth + size + ROOM
        if self._failure or shutil.disk_usage(self._file.parent).free < needed:
            raise OSError(errno.ENOSPC, self._failure or f"the disk of {self._file.parent} is almost full")

    def _kept(self, name: str, inner: Any) -> Any:
        """Return a service's handler that answers a write with an error unless it can be kept."""

        async def handle(
            method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]], **more: Any
        ) -> Answer:
            operation = method if name == "s3" else _operation(headers, body, query)
            if operation.lower().startswith(_READS):
                answer: Answer = await inner(method, path, headers, body, query, **more)
                return answer
            bucket, key = s3._parse_bucket_key(path, headers) if name == "s3" else ("", "")  # noqa: SLF001 -- as MiniStack does
            growth = 0 if key else ESCAPED * len(body)
            objects: dict[str, Any] = s3._buckets.get(bucket, {}).get("objects", {})  # noqa: SLF001 -- no other way
            before = objects.get(key)
            self._lost.clear()
            try:
                if not (name == "s3" and (method == "DELETE" or "delete" in query)):  # which make room
                    self._require_room(growth)
                answer = await inner(method, path, headers, body, query, **more)
            except OSError as error:
                return _not_kept(name, error)
            if not key:
                self._changed.add(name)
                self._growth += growth
            if not self._lost:
                return answer
            objects.pop(key, None)
            if before is not None:
                objects[key] = before
            return _not_kept(name, self._lost[0])

        return handle

    def _write_object(self, inner: Any) -> Any:
        """Return what writes a file of an object, and notes a failure, which MiniStack does not pass on."""

        def write(path: str, data: bytes | str, *, text: bool = False) -> None:
            try:
                if not text:  # the text beside it goes into the room that is left
                    self._require_room(len(data))
                inner(path, data, text=text)
            except OSError as error:
                self._lost.append(error)
                raise

        return write

    def _damaged(self, what: str, path: Path) -> StateDamaged:
        return StateDamaged(f"{path} {what}; nothing was changed")


def _operation(headers: dict[str, str], body: bytes, query: dict[str, list[str]]) -> str:
    """Return the operation's name: of a target, or an `Action` in query or form."""
    target = headers.get("x-amz-target", "").rpartition(".")[2]
    return target or (query.get("Action") or parse_qs(body.decode("utf-8", "replace")).get("Action") or [""])[0]


def _not_kept(name: str, error: OSError) -> Answer:
    """Return the service's own form of an internal error."""
    message = f"Nothing was changed: {error.strerror}. Free some space and repeat the request."
    logger.error("a write was refused: %s", message)
    answer: Answer
    if name == "s3":
        answer = s3._error("InternalError", message, 500)  # noqa: SLF001 -- MiniStack's own form
    elif name == "iam":
        answer = iam._error(500, "ServiceFailure", message)  # noqa: SLF001 -- as above
    else:
        code = "InternalServerError" if name == "dynamodb" else "InternalServiceError"
        answer = error_response_json(code, message, 500)
    return answer
