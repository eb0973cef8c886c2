"""Decides how the embedded AWS keeps what it was told: MiniStack, and what it answered to a write is on the disk.

Run as `python -m deltaic_ops.local.keeper FOLDER`. MiniStack writes objects at once, but tables, secrets and roles only
when it stops. Here a request to DynamoDB is journaled before it is carried out, which repeats it to the letter after a
crash; secrets and roles, which get random names, are journaled as they are afterwards, before the answer. What cannot
be journaled is answered with an error. The rest of MiniStack (a deployed stack's functions, say) is kept when it ends
in order, which it does when the process that started it has ended: its standard input is closed then.
"""

import asyncio
import base64
import contextvars
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack import app as ministack
from ministack.core import persistence
from ministack.core.iam_evaluator import resolve_caller_identity
from ministack.core.responses import get_account_id, get_region, set_request_account_id, set_request_region
from ministack.core.router import detect_service, extract_access_key_id
from ministack.services import sts

from deltaic_ops.local.access_logs import FOLDER, LoggedStore, fetch_log
from deltaic_ops.local.embedded import UNUSABLE
from deltaic_ops.local.guard import Guard
from deltaic_ops.local.journal import Journal, StateDamaged
from deltaic_ops.local.lifeline import wait_for_parent
from deltaic_ops.local.open_files import allow_files

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a connection may idle. Hypercorn also holds one that its client has closed for so long."""

FORMAT: Final = 1
JOURNAL_BYTES: Final = 4 * 1024 * 1024
"""A longer journal, if it is longer than its copy too, is begun anew after a new copy."""

TOKEN_LENGTH: Final = 936
"""Characters of a session's token, about as AWS's has: it stands in every signed URL, so it is most of a line."""

_READS: Final = ("get", "batchget", "transactget", "query", "scan", "describe", "list")

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, dict[str, str], bytes, dict[str, list[str]]], Awaitable[Answer]]


class Keeper:
    """The services of MiniStack whose state outlives the process, whatever ends it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._writing = asyncio.Lock()
        self._tables: frozenset[Any] = frozenset()
        self._unkept: set[str] = set()
        self._dynamodb: Handler = ministack.SERVICE_HANDLERS["dynamodb"]

    async def restore(self) -> None:
        """Bring MiniStack to the state on disk; raises StateDamaged, OSError."""
        kept = self._journal.read()
        if kept.copy is not None:
            self._load_copy(kept.copy)
        elif not kept.records:
            self._load_older()
        for record in kept.records:
            await self._repeat(json.loads(record, object_hook=persistence._json_object_hook))  # noqa: SLF001
        if kept.records:
            self.copy()
        self._tables = _table_names()

    def hook(self) -> None:
        """Stand between MiniStack and the services that are kept."""
        handlers = ministack.SERVICE_HANDLERS
        handlers["dynamodb"] = self._journaled
        for name in ("iam", "secretsmanager"):
            handlers[name] = self._kept_whole(name, handlers[name])

    def copy(self) -> None:
        """Keep a copy of everything; raises OSError."""
        services = {}
        for name, get_state in ministack._build_persistence_save_dict().items():  # noqa: SLF001 -- as MiniStack saves itself
            if (state := get_state()) is not None:
                services[name] = {"version": persistence._state_format_version(name), "payload": state}  # noqa: SLF001
        self._journal.start_over(_json({"format": FORMAT, "services": services}))
        self._tables = _table_names()
        self._unkept.clear()

    async def _journaled(
        self, method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]]
    ) -> Answer:
        target = headers.get("x-amz-target", "")
        if target.rpartition(".")[2].lower().startswith(_READS):
            return await self._dynamodb(method, path, headers, body, query)
        record = _json({
            "service": "dynamodb",
            "account": get_account_id(),
            "region": get_region(),
            "target": target,
            "body": body.decode("utf-8", "surrogateescape"),
        })  # fmt: skip
        async with self._writing:  # carried out in the order of the journal
            try:
                # Tables that CloudFormation has made are in no record yet.
                if self._tables != _table_names() or self._journal.size > max(JOURNAL_BYTES, self._journal.copy_size):
                    self.copy()
                self._keep_the_unkept()
                await asyncio.to_thread(self._journal.append, record)
            except OSError as error:
                return _not_kept("dynamodb", error)
            answer = await self._dynamodb(method, path, headers, body, query)
            self._tables = _table_names()
        return answer

    def _kept_whole(self, name: str, inner: Handler) -> Handler:
        async def handle(
            method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]]
        ) -> Answer:
            if _operation(headers, body, query).lower().startswith(_READS):
                return await inner(method, path, headers, body, query)
            async with self._writing:
                try:
                    self._keep_the_unkept()
                    answer = await inner(method, path, headers, body, query)
                    self._unkept.add(name)
                    self._keep_the_unkept()
                except OSError as error:
                    return _not_kept(name, error)
            return answer

        return handle

    def _keep_the_unkept(self) -> None:
        """Journal the services that have changed; what fails is tried again before the next write."""
        states = ministack._build_persistence_save_dict()  # noqa: SLF001 -- as MiniStack saves itself
        for name in sorted(self._unkept):
            self._journal.append(_json({"service": name, "state": states[name]()}))
            self._unkept.discard(name)

    async def _repeat(self, record: dict[str, Any]) -> None:
        name = record["service"]
        if "state" in record:
            module = ministack._get_module(name)  # noqa: SLF001 -- as MiniStack loads itself
            module.reset()  # what is loaded is added
            module.load_persisted_state(record["state"])
            return

        async def call() -> None:
            set_request_account_id(record["account"])
            set_request_region(record["region"])
            body = record["body"].encode("utf-8", "surrogateescape")
            try:
                await self._dynamodb("POST", "/", {"x-amz-target": record["target"]}, body, {})
            except Exception as error:  # noqa: BLE001 -- what was refused or failed then does so now
                logger.warning("a write that failed is in the journal, and fails again: %s", error)

        await asyncio.create_task(call(), context=contextvars.copy_context())

    def _load_copy(self, copy: bytes) -> None:
        said = json.loads(copy, object_hook=persistence._json_object_hook)  # noqa: SLF001 -- written by its counterpart
        if said["format"] > FORMAT:
            raise self._newer(f"format {said['format']}, and this one knows {FORMAT}")
        for name, service in said["services"].items():
            if service["version"] > persistence._state_format_version(name):  # noqa: SLF001 -- as MiniStack loads itself
                raise self._newer(f"{name} of version {service['version']}")
            ministack._get_module(ministack._state_map[name]).load_persisted_state(service["payload"])  # noqa: SLF001

    def _newer(self, what: str) -> StateDamaged:
        return StateDamaged(
            f"{self._journal.folder} was written by a newer Deltaic ({what}); nothing was changed. Use that one, or "
            "choose another folder with --state."
        )

    def _load_older(self) -> None:
        """Take over what MiniStack itself has kept here, one file a service, before there was a journal."""
        files = sorted(self._journal.folder.glob("*.json"))
        for path in files:
            try:
                said = json.loads(path.read_bytes(), object_hook=persistence._json_object_hook)  # noqa: SLF001 -- MiniStack's own form
                ministack._get_module(ministack._state_map[path.stem]).load_persisted_state(said["payload"])  # noqa: SLF001
            except (ValueError, KeyError, TypeError) as error:
                raise StateDamaged(
                    f"{path} cannot be read ({type(error).__name__}: {error}); nothing was changed. Put it back from a "
                    "backup, or choose another folder with --state."
                ) from None
        if files:
            self.copy()
        for path in files:
            path.unlink()


def _table_names() -> frozenset[Any]:
    dynamodb = sys.modules.get("ministack.services.dynamodb")
    return frozenset(key for key, _ in dynamodb._tables.all_items()) if dynamodb else frozenset()  # noqa: SLF001


def _operation(headers: dict[str, str], body: bytes, query: dict[str, list[str]]) -> str:
    """Return the operation's name: of a target's, or of an `Action` in query or form."""
    if target := headers.get("x-amz-target"):
        return target.rpartition(".")[2]
    form = parse_qs(body.decode("utf-8", "replace"))
    return (query.get("Action") or form.get("Action") or [""])[0]


def _json(value: Any) -> bytes:
    return json.dumps(value, default=persistence._json_default).encode()  # noqa: SLF001 -- MiniStack's own form


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


def main(folder: Path) -> int:
    """Serve until the parent ends; returns the exit code."""
    allow_files()
    keeper = Keeper(Journal(folder))
    try:
        asyncio.run(keeper.restore())
    except StateDamaged as error:
        print(error, file=sys.stderr, flush=True)
        return UNUSABLE
    except OSError as error:
        print(f"{folder} cannot be used ({error.strerror}): choose another folder with --state", file=sys.stderr)
        return UNUSABLE
    keeper.hook()
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
            keeper.copy()
        except OSError as error:
            logger.error("no copy of the state was written (%s): the journal has what was acknowledged", error)  # noqa: TRY400
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
