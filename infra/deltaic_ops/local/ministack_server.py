"""Main module of the embedded AWS's process: MiniStack, with its state in a folder (saved_state.py).

Run as `python -m deltaic_ops.local.ministack_server FOLDER [--forget]`. When its parent process
ends, which closes standard input, it saves its state and ends too.
"""

import asyncio
import base64
import logging
import os
import signal
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Final

from deltaic.http.asgi import App
from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack import app as ministack
from ministack.core.iam_evaluator import resolve_caller_identity
from ministack.core.router import detect_service, extract_access_key_id
from ministack.services import dynamodb, sts

from deltaic_ops.local.access_logs import FOLDER, LoggedStore, fetch_log
from deltaic_ops.local.embedded import FORGET, UNUSABLE
from deltaic_ops.local.request_guard import RequestGuard
from deltaic_ops.local.saved_state import SavedState, StateDamaged

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds after which an idle connection is closed; Hypercorn also keeps connections that clients have closed."""

TOKEN_LENGTH: Final = 936
"""Length of AWS session tokens in characters. Signed URLs contain it, so it affects the size of responses."""


def s3_caller(method: str, path: str, headers: dict[str, str], query: dict[str, list[str]]) -> str | None:
    """Return the signer's ARN of an S3 request, empty if it is unsigned; None for requests to other services."""
    if path.startswith("/_ministack") or detect_service(method, path, headers, query) != "s3":
        return None
    identity = resolve_caller_identity(extract_access_key_id(headers, query))
    return "" if identity is None else str(identity["userArn"])


def session_token() -> str:
    """Return a session token with AWS's length and alphabet; MiniStack's own tokens have only 134 characters."""
    prefix = "IQoJb3JpZ2luX2Vj"
    return prefix + base64.b64encode(os.urandom((TOKEN_LENGTH - len(prefix)) // 4 * 3)).decode()


def end_with_parent() -> None:
    """Wait until the parent process ends, then stop this process."""
    sys.stdin.buffer.read()  # the kernel closes it when the parent ends or is killed
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, *, persistent: bool = True) -> int:
    """Serve until the parent process ends; return the exit code. Without `persistent`, write only objects to disk."""
    state = SavedState(folder) if persistent else None
    try:
        if state is not None:
            state.load()
    except (StateDamaged, OSError) as error:
        print(f"{error}. Restore it from a backup, or choose another folder with --state.", file=sys.stderr)
        return UNUSABLE
    sts._gen_session_token = session_token  # noqa: SLF001 -- MiniStack has no setting for it
    # A query compares each item of its partition, and MiniStack would parse the expression for each of them.
    for name in ("_tokenize", "_condition_syntax_error"):
        setattr(dynamodb, name, lru_cache(1024)(getattr(dynamodb, name)))
    threading.Thread(target=end_with_parent, daemon=True).start()
    with fetch_log(folder.parent / FOLDER) as write:
        asyncio.run(_serve(RequestGuard(LoggedStore(ministack.app, s3_caller, write)), state))
    return 0


async def _serve(app: App, state: SavedState | None) -> None:
    config = Config()
    config.bind = [f"127.0.0.1:{os.environ['GATEWAY_PORT']}"]
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.loglevel = "WARNING"
    saving = None if state is None else asyncio.create_task(state.save_regularly())
    await serve(app, config)  # type: ignore[arg-type]  # App follows asgiref's types
    if state is None or saving is None:
        return
    saving.cancel()
    await asyncio.get_running_loop().shutdown_default_executor()  # a save may be in progress
    try:
        # While the loop runs, it handles SIGTERM. Later, a second signal would end the process before it is saved.
        state.save()
    except OSError as error:
        logger.error("cannot save the latest changes (%s): the state file has the previous state", error)  # noqa: TRY400


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), persistent=FORGET not in sys.argv))
