"""The process of the embedded AWS: MiniStack, with its state in a folder (saved_state.py).

Run as `python -m deltaic_ops.local.ministack_server FOLDER [--forget]`. It ends in order when the process that started
it has ended: its standard input is closed then.
"""

import asyncio
import base64
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from deltaic.http.asgi import App
from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack import app as ministack
from ministack.core.iam_evaluator import resolve_caller_identity
from ministack.core.router import detect_service, extract_access_key_id
from ministack.services import sts

from deltaic_ops.local.access_logs import FOLDER, LoggedStore, fetch_log
from deltaic_ops.local.embedded import FORGET, UNUSABLE
from deltaic_ops.local.request_guard import Guard
from deltaic_ops.local.saved_state import SavedState, StateDamaged

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a connection may idle. Hypercorn also holds one that its client has closed for so long."""

TOKEN_LENGTH: Final = 936
"""Characters of a session's token, about as AWS's has: it stands in every signed URL, so it is most of a line."""


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
    sys.stdin.buffer.read()  # the kernel closes it when the parent has ended, however that happened
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, *, persistent: bool = True) -> int:
    """Serve until the parent ends; returns the exit code. Unless `persistent`, only objects are on disk."""
    state = SavedState(folder) if persistent else None
    try:
        if state is not None:
            state.load()
    except (StateDamaged, OSError) as error:
        print(f"{error}. Put it back from a backup, or choose another folder with --state.", file=sys.stderr)
        return UNUSABLE
    sts._gen_session_token = session_token  # noqa: SLF001 -- no setting of it
    threading.Thread(target=end_with_parent, daemon=True).start()
    with fetch_log(folder.parent / FOLDER) as write:
        asyncio.run(_serve(Guard(LoggedStore(ministack.app, s3_caller, write)), state))
    return 0


async def _serve(app: App, state: SavedState | None) -> None:
    config = Config()
    config.bind = [f"127.0.0.1:{os.environ['GATEWAY_PORT']}"]
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.loglevel = "WARNING"
    saving = None if state is None else asyncio.create_task(state.save_regularly())
    await serve(app, config)  # type: ignore[arg-type]  # ours is the ASGI of asgiref
    if state is None or saving is None:
        return
    saving.cancel()
    await asyncio.get_running_loop().shutdown_default_executor()  # a save may be in progress
    try:
        # The loop still handles SIGTERM here. After it, a second signal would end the process before the save.
        state.save()
    except OSError as error:
        logger.error("the state was not saved at the end (%s): the file has the save before", error)  # noqa: TRY400


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), persistent=FORGET not in sys.argv))
