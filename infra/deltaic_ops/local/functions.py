"""The template's functions in this process: each handler loaded once, each call in its caller's thread.

One process has one `os.environ`, so it runs the functions of one template with one set of parameters, and the
environment is set before the first of them is loaded (gateway_process.py does; `Functions` checks it):
`deltaic.settings.settings()` reads it once, at a function's import or first call, and is right for all of them.
"""

import asyncio
import importlib.util
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from awslambdaric.lambda_runtime_hooks_runner import run_after_restore, run_before_snapshot

from deltaic_ops.deploy.sam_template import Function
from deltaic_ops.local.aws_limits import Limits, PacedAnswer
from deltaic_ops.local.exchange import Exchange, Header
from deltaic_ops.local.proxy_event import read_prelude

Handler = Callable[[dict[str, Any], Any], Any]
Head = Callable[[int, list[Header]], None]


class LocalContext:
    """The context that Lambda hands to a handler."""

    identity = None
    client_context = None
    function_version = "$LATEST"

    def __init__(self, function: Function, request_id: str) -> None:
        self.aws_request_id = request_id
        self.function_name = function.name
        self.memory_limit_in_mb = function.memory
        self.invoked_function_arn = function.arn
        self.log_group_name = f"/aws/lambda/{function.name}"
        self.log_stream_name = "local"
        self._deadline = time.monotonic() + function.timeout

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the function may still run."""
        return max(int((self._deadline - time.monotonic()) * 1000), 0)


class StreamingContext(LocalContext):
    """The context of a function whose route streams: it takes the answer that would go to the Runtime API."""

    def __init__(
        self, function: Function, request_id: str, exchange: Exchange, head: Head, *, limits: Limits = "none"
    ) -> None:
        super().__init__(function, request_id)
        self.stream = ClientStream(exchange, head, limits)

    async def open_response_stream(self) -> "ClientStream":
        """Return where the answer goes: the bytes that Lambda would be sent, prelude first."""
        return self.stream


class ClientStream:
    """A ResponseStream (deltaic.http.runtime_stream) that ends in the client's socket."""

    def __init__(self, exchange: Exchange, head: Head, limits: Limits = "none") -> None:
        self._exchange = exchange
        self._head = head
        self._send = PacedAnswer(exchange.send).send if limits == "aws" else exchange.send
        self._received = b""
        self._started = False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send what the function has made, at the client's pace; raises OSError once the client has left."""
        self.take(data)
        if last:
            self.end()

    def take(self, data: bytes) -> None:
        """Read the prelude, then pass bytes on."""
        if not self._started:
            self._received += data
            found = read_prelude(self._received)
            if found is None:
                return
            status, headers, data = found
            self._started = True
            self._head(status, headers)
        self._send(data)

    async def fail(self, error_type: str) -> None:
        """Leave the answer without an end, so that the client does not take it for a whole one."""

    def end(self) -> None:
        """End the answer in order; without a prelude there is none yet."""
        if self._started:
            self._exchange.send(b"", last=True)

    async def accepted(self) -> None:
        """Nothing is buffered here, so there is nothing to wait for."""


class Functions:
    """The template's functions, loaded when first called (or by `load_all`)."""

    def __init__(self, functions: Mapping[str, Function], variables: Iterable[str]) -> None:
        if missing := [name for name in variables if name not in os.environ]:
            raise RuntimeError(f"the functions' environment must be set before they are loaded: {', '.join(missing)}")
        self._functions = functions
        self._handlers: dict[str, Handler] = {}
        self._locks = {logical_id: threading.Lock() for logical_id in functions}

    def __getitem__(self, logical_id: str) -> Function:
        return self._functions[logical_id]

    def call(self, logical_id: str, event: dict[str, Any], context: LocalContext) -> Any:
        """Run the handler in this thread, which gets an event loop of its own; raises what the handler raises."""
        with _event_loop():
            return self._handler(logical_id)(event, context)

    def start(self, arn: str, event: dict[str, Any]) -> bool:
        """Run a function, by what routes invoke of it, in a thread for which nobody waits; False where it is none."""
        for logical_id, function in self._functions.items():
            if function.arn == arn:
                context = LocalContext(function, str(uuid.uuid4()))
                threading.Thread(target=self.call, args=(logical_id, event, context), daemon=True).start()
                return True
        return False

    def load_all(self) -> None:
        """Let them begin as Lambda's do after a snapshot: with all that a first request loads and connects.

        Raises what a module raises. The hooks of AWS's client are the process's, so this is for a process that runs
        nothing else.
        """
        with _event_loop():
            for logical_id in self._functions:
                self._handler(logical_id)
        run_before_snapshot()
        run_after_restore()

    def _handler(self, logical_id: str) -> Handler:
        with self._locks[logical_id]:
            if logical_id not in self._handlers:
                function = self._functions[logical_id]
                module, _, name = function.handler.rpartition(".")
                self._handlers[logical_id] = getattr(_load(logical_id, function, module), name)
            return self._handlers[logical_id]


@contextmanager
def _event_loop() -> Iterator[None]:
    """Give this thread an event loop, as the main thread has one on Lambda: Mangum runs its app on it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _load(logical_id: str, function: Function, module: str) -> ModuleType:
    """Import a function's module under a name of its own: every folder has an `app.py`."""
    name = f"deltaic_function_{logical_id}"
    spec = importlib.util.spec_from_file_location(name, function.code / f"{module}.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{function.code} has no {module}.py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
