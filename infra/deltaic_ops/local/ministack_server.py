"""The process of the embedded AWS: MiniStack, which has on the disk what it answered to a write.

Run as `python -m deltaic_ops.local.ministack_server FOLDER [--forget]`. MiniStack writes objects at once, but tables,
secrets and roles only when it stops. Here the state of these services is written whole after each request that changes
them, synced and renamed into place before the answer leaves; what cannot be written is answered with an error. The rest
of MiniStack (a deployed stack's functions, say) is written when it ends in order, which it does when the process that
started it has ended: its standard input is closed then.
"""

import asyncio
import base64
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack import app as ministack
from ministack.core import persistence
from ministack.core.iam_evaluator import resolve_caller_identity
from ministack.core.router import detect_service, extract_access_key_id
from ministack.services import sts

from deltaic_ops.local.access_logs import FOLDER, LoggedStore, fetch_log
from deltaic_ops.local.embedded import FORGET, UNUSABLE
from deltaic_ops.local.open_files import allow_files
from deltaic_ops.local.parent_watch import wait_for_parent
from deltaic_ops.local.request_guard import Guard

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a connection may idle. Hypercorn also holds one that its client has closed for so long."""

FILE: Final = "state.json"
FORMAT: Final = 2
KEPT: Final = ("dynamodb", "iam", "kms", "secretsmanager")
"""The services whose writes are on the disk when they are answered."""

TOKEN_LENGTH: Final = 936
"""Characters of a session's token, about as AWS's has: it stands in every signed URL, so it is most of a line."""

_READS: Final = ("get", "batchget", "transactget", "query", "scan", "describe", "list")

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, dict[str, str], bytes, dict[str, list[str]]], Awaitable[Answer]]


class StateDamaged(Exception):
    """The state on disk cannot be read; the message names the file and says what to do. Nothing was changed."""


class State:
    """What MiniStack's services hold, in one file of a folder. One process at a time may have it (state.py)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._services: dict[str, bytes] = {}
        """Each service's state as JSON, as it was when the service last changed."""
        self._changed: set[str] = set()
        self._writing = asyncio.Lock()
        self._disk = ThreadPoolExecutor(1)
        """Where it is synced: a disk that is busy takes seconds, and readers need not wait for it."""

    def load(self) -> None:
        """Bring MiniStack to the state on disk; raises StateDamaged, OSError."""
        folder = self._file.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._file.exists():
            if any(folder.glob("*.json*")):
                raise self._damaged("was written by an earlier Deltaic", folder)
            return
        try:
            saved = json.loads(self._file.read_bytes(), object_hook=persistence._json_object_hook)  # noqa: SLF001 -- MiniStack's own form
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

    def hook(self) -> None:
        """Stand between MiniStack and the services whose writes are kept."""
        for name in KEPT:
            ministack.SERVICE_HANDLERS[name] = self._kept(name, ministack.SERVICE_HANDLERS[name])

    def save(self, names: Collection[str] = ()) -> None:
        """Write the state of services anew, by default of all, and that of the others as it was; raises OSError."""
        self._write(self._rendered(names))

    def _rendered(self, names: Collection[str]) -> bytes:
        for name, get_state in ministack._build_persistence_save_dict().items():  # noqa: SLF001 -- as MiniStack saves itself
            again = not names or name in names or name not in self._services
            if again and (state := get_state()) is not None:
                service = {"version": persistence._state_format_version(name), "payload": state}  # noqa: SLF001 -- as above
                self._services[name] = json.dumps(service, default=persistence._json_default).encode()  # noqa: SLF001 -- as above
        services = b",".join(b'"%b":%b' % (name.encode(), state) for name, state in self._services.items())
        return b'{"format":%d,"services":{%b}}' % (FORMAT, services)

    def _write(self, content: bytes) -> None:
        fresh = self._file.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the new name
        finally:
            os.close(folder)

    def _kept(self, name: str, inner: Handler) -> Handler:
        async def handle(
            method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]]
        ) -> Answer:
            answer = await inner(method, path, headers, body, query)
            if _operation(headers, body, query).lower().startswith(_READS):
                return answer
            self._changed.add(name)
            async with self._writing:
                if name in self._changed:  # else another request has written this change with its own
                    changed, self._changed = self._changed, set()
                    try:
                        await asyncio.get_running_loop().run_in_executor(
                            self._disk, self._write, self._rendered(changed)
                        )
                    except OSError as error:
                        self._changed |= changed
                        return _not_kept(name, error)
            return answer

        return handle

    def _damaged(self, what: str, path: Path) -> StateDamaged:
        return StateDamaged(
            f"{path} {what}; nothing was changed. Put it back from a backup, or choose another folder with --state."
        )


def _operation(headers: dict[str, str], body: bytes, query: dict[str, list[str]]) -> str:
    """Return the operation's name: of a target's, or of an `Action` in query or form."""
    if target := headers.get("x-amz-target"):
        return target.rpartition(".")[2]
    form = parse_qs(body.decode("utf-8", "replace"))
    return (query.get("Action") or form.get("Action") or [""])[0]


def _not_kept(name: str, error: OSError) -> Answer:
    """Return the service's own form of an internal error."""
    logger.error("a write was refused because it cannot be kept: %s", error)
    message = f"the state folder cannot be written ({error.strerror}): what was asked is not kept"
    if name == "iam":
        said = f"<ErrorResponse><Error><Code>ServiceFailure</Code><Message>{message}</Message></Error></ErrorResponse>"
        return 500, {"Content-Type": "text/xml"}, said.encode()
    code = "InternalServerError" if name == "dynamodb" else "InternalServiceError"
    said = json.dumps({"__type": code, "message": message})
    return 500, {"Content-Type": "application/x-amz-json-1.1"}, said.encode()


def s3_caller(method: str, path: str, headers: dict[str, str], query: dict[str, list[str]]) -> str | None:
    """Return the ARN of the key that a request to S3 was signed with, empty for none; None if it is not for S3."""
    if path.startswith("/_ministack") or detect_service(method, path, headers, query) != "s3":
        return None
    found = resolve_caller_identity(extract_access_key_id(headers, query))
    return "" if found is None else str(found["userArn"])


def session_token() -> str:
    """Return a token for a new session, of AWS's length and letters; MiniStack's own has 134 characters."""
    opening = "IQoJb3JpZ2luX2Vj"
    return opening + base64.b64encode(os.urandom((TOKEN_LENGTH - len(opening)) // 4 * 3)).decode()


def end_with_parent() -> None:
    """Stop this process in order once its parent has ended; does not return before."""
    wait_for_parent()
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, *, persistent: bool = True) -> int:
    """Serve until the parent ends; returns the exit code. What is not `kept` is in memory alone, but for objects."""
    allow_files()
    state = State(folder)
    try:
        if persistent:
            state.load()
            state.hook()
    except StateDamaged as error:
        print(error, file=sys.stderr, flush=True)
        return UNUSABLE
    except OSError as error:
        print(f"{folder} cannot be used ({error.strerror}): choose another folder with --state", file=sys.stderr)
        return UNUSABLE
    sts._gen_session_token = session_token  # noqa: SLF001 -- no setting of it
    threading.Thread(target=end_with_parent, daemon=True).start()
    config = Config()
    config.bind = [f"127.0.0.1:{os.environ['GATEWAY_PORT']}"]
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.loglevel = "WARNING"
    try:
        with fetch_log(folder.parent / FOLDER) as write:
            asyncio.run(serve(Guard(LoggedStore(ministack.app, s3_caller, write)), config))  # type: ignore[arg-type]  # ours is the ASGI of asgiref
    finally:
        try:
            if persistent:
                state.save()
        except OSError as error:
            logger.error("the state was not written at the end (%s): it has what was acknowledged", error)  # noqa: TRY400
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), persistent=FORGET not in sys.argv))
