"""Save the embedded AWS's state every second and when it stops, and reject writes that cannot be saved (decision 194).

MiniStack writes objects at once, but after a failure it logs the error and returns 200. It saves tables, secrets and
roles only when it stops. Here, a write returns an error if the disk is almost full or the last save failed.
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
SAVED: Final = ("dynamodb", "iam", "kms", "s3", "secretsmanager")
"""Services whose changes are saved every second; all others are saved when the embedded AWS stops."""

SAVE_SECONDS: Final = 1.0
ROOM: Final = 1 << 20
"""Bytes that must stay free on the disk after a write, in addition to the size of the next save."""
ESCAPED: Final = 3
"""Maximum growth of the state file by a request, as a multiple of its body's size: JSON escapes characters."""

_READS: Final = ("get", "head", "batchget", "transactget", "query", "scan", "describe", "list", "sign", "verify")

ServiceResponse = tuple[int, dict[str, str], bytes]


class StateDamaged(Exception):
    """The state file cannot be read; the message names the file, which was not changed."""


class SavedState:
    """State of MiniStack's services in one file, which one process at a time can use (state_folder.py)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._services: dict[str, str] = {}
        self._changed: set[str] = set()
        self._growth = 0
        """Maximum number of bytes by which the state has grown since the last save."""
        self._failure = ""
        """Why the last save failed; empty if it succeeded."""
        self._lost: list[OSError] = []
        """Errors of writing objects in the current request."""

    def load(self) -> None:
        """Load the state from disk into MiniStack, and start to track changes; raises StateDamaged, OSError."""
        folder = self._file.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for temporary in folder.glob(f"{FILE}.*.new"):  # left by a save that was killed
            temporary.unlink()
        if self._file.exists():
            self._restore(self._file.read_bytes())
        elif any(folder.glob("*.json*")):
            raise self._damaged("was written by an earlier version of Deltaic", folder)
        for name in SAVED:
            module = ministack._get_module(name)  # noqa: SLF001 -- handlers are looked up there
            module.handle_request = self._wrap_handler(name, module.handle_request)
        s3._atomic_write = self._write_object(s3._atomic_write)  # noqa: SLF001 -- as above

    async def save_regularly(self) -> None:
        """Save all changes every second, until the task is cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            changed, self._changed, self._growth = self._changed, set(), 0
            if not changed:
                continue
            try:
                # In a thread, because a busy disk takes seconds, and reads need not wait for it.
                await asyncio.to_thread(write_private, self._file, self._render(changed))
                self._failure = ""
            except Exception as error:  # after any failure, writes must be rejected
                self._changed |= changed
                self._failure = f"{self._file} cannot be written ({error})"
                logger.exception("cannot save the state, so writes are rejected")

    def save(self) -> None:
        """Save the state of all services; raises OSError."""
        write_private(self._file, self._render(()))

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
            raise self._damaged("was written by a newer version of Deltaic", self._file)
        for name, service in saved["services"].items():
            ministack._get_module(ministack._state_map[name]).load_persisted_state(service["payload"])  # noqa: SLF001

    def _render(self, names: Collection[str]) -> str:
        """Return all services' state as JSON; read only services in `names` (all if empty) again."""
        for name, get_state in ministack._build_persistence_save_dict().items():  # noqa: SLF001 -- as MiniStack saves itself
            again = not names or name in names or name not in self._services
            if again and (state := get_state()) is not None:
                service = {"version": persistence._state_format_version(name), "payload": state}  # noqa: SLF001 -- as above
                self._services[name] = json.dumps(service, default=persistence._json_default)  # noqa: SLF001 -- as above
        services = ",".join(f'"{name}":{state}' for name, state in self._services.items())
        return f'{{"format":{FORMAT},"services":{{{services}}}}}'

    def _check_room(self, size: int) -> None:
        """Raise OSError if the last save failed, or if the disk has no room for `size` more bytes."""
        needed = sum(map(len, self._services.values())) + self._growth + size + ROOM
        if self._failure or shutil.disk_usage(self._file.parent).free < needed:
            raise OSError(errno.ENOSPC, self._failure or f"the disk with {self._file.parent} is almost full")

    def _wrap_handler(self, name: str, inner: Any) -> Any:
        """Wrap a service's handler, so that a write that cannot be saved returns an error and changes nothing."""

        async def handle(
            method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]], **more: Any
        ) -> ServiceResponse:
            operation = method if name == "s3" else _operation(headers, body, query)
            if operation.lower().startswith(_READS):
                response: ServiceResponse = await inner(method, path, headers, body, query, **more)
                return response
            bucket, key = s3._parse_bucket_key(path, headers) if name == "s3" else ("", "")  # noqa: SLF001 -- as MiniStack does
            growth = 0 if key else ESCAPED * len(body)
            objects: dict[str, Any] = s3._buckets.get(bucket, {}).get("objects", {})  # noqa: SLF001 -- no other way
            previous = objects.get(key)
            self._lost.clear()
            try:
                if not (name == "s3" and (method == "DELETE" or "delete" in query)):  # deletes make room
                    self._check_room(growth)
                response = await inner(method, path, headers, body, query, **more)
            except OSError as error:
                return _internal_error(name, error)
            if not key:
                self._changed.add(name)
                self._growth += growth
            if name != "s3" or not self._lost:  # S3's handler does not await: the failure is its own
                return response
            objects.pop(key, None)
            if previous is not None:
                objects[key] = previous
            return _internal_error(name, self._lost[0])

        return handle

    def _write_object(self, inner: Any) -> Any:
        """Wrap the function that writes an object's file, and record its errors, which MiniStack only logs."""

        def write(path: str, data: bytes | str, *, text: bool = False) -> None:
            try:
                if not text:  # an object's metadata, which is text, follows it into the spare room
                    self._check_room(len(data))
                inner(path, data, text=text)
            except OSError as error:
                self._lost.append(error)
                raise

        return write

    def _damaged(self, problem: str, path: Path) -> StateDamaged:
        return StateDamaged(f"{path} {problem}; nothing was changed")


def _operation(headers: dict[str, str], body: bytes, query: dict[str, list[str]]) -> str:
    """Return the name of a request's AWS operation, from the target header, or `Action` in the query or form."""
    target = headers.get("x-amz-target", "").rpartition(".")[2]
    return target or (query.get("Action") or parse_qs(body.decode("utf-8", "replace")).get("Action") or [""])[0]


def _internal_error(name: str, error: OSError) -> ServiceResponse:
    message = f"Nothing was changed: {error.strerror}. Free some space and repeat the request."
    logger.error("rejected a write: %s", message)
    response: ServiceResponse
    if name == "s3":
        response = s3._error("InternalError", message, 500)  # noqa: SLF001 -- MiniStack's own form
    elif name == "iam":
        response = iam._error(500, "ServiceFailure", message)  # noqa: SLF001 -- as above
    else:
        code = "InternalServerError" if name == "dynamodb" else "InternalServiceError"
        response = error_response_json(code, message, 500)
    return response
