"""Decides how the embedded AWS keeps what it was told: MiniStack, saved a moment after each write, not only at its end.

Run as `python -m deltaic_ops.local.keeper`. MiniStack writes objects at once but tables, secrets and roles only when it
stops; here they are saved SAVE_SECONDS after a request that may have changed them, so even `kill -9` costs no more. It
ends, in order, when the process that started it does: its standard input is closed then.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ministack import app as ministack
from ministack.core.persistence import save_all

from deltaic_ops.local.lifeline import wait_for_parent

SAVE_SECONDS = 2.0
KEPT = ("dynamodb", "iam", "secretsmanager", "sts")
_READS = ("get", "batchget", "transactget", "query", "scan", "describe", "list")

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class Keeper:
    """MiniStack's app, and the save that its writes set off."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._saving: asyncio.Task[None] | None = None

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Serve a request; one that may have written leads to a save soon after."""
        try:
            await self._app(scope, receive, send)
        finally:
            if scope["type"] == "http" and _may_write(scope) and (self._saving is None or self._saving.done()):
                self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        await asyncio.sleep(SAVE_SECONDS)
        # In the event loop, so that no request changes what is being written.
        save_all({name: state for name, state in ministack._build_persistence_save_dict().items() if name in KEPT})  # noqa: SLF001 -- MiniStack saves itself by this


def _may_write(scope: Scope) -> bool:
    """Tell whether a request is a POST to a service of KEPT that does not merely read."""
    if scope["method"] != "POST":
        return False
    headers = dict(scope["headers"])
    service, _, operation = headers.get(b"x-amz-target", b"").decode("latin-1").lower().partition(".")
    if not service:
        return any(name in headers.get(b"authorization", b"") for name in (b"/iam/", b"/sts/"))
    return service.startswith(("dynamodb", "secretsmanager")) and not operation.startswith(_READS)


def end_with_parent() -> None:
    """Stop this process in order once its parent has ended; does not return before."""
    wait_for_parent()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    ministack.app = Keeper(ministack.app)
    ministack.main()
