"""Run the template's functions in this process: load each handler once, and call it in the caller's thread.

A process has one `os.environ`, so it runs the functions of one template with one set of parameters. The environment
must be complete before the first function is loaded, because `deltaic.settings.settings()` reads it only once.
gateway_process.py sets it, and `Functions` checks it.
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
from deltaic_ops.local.exchange import Header, HttpExchange
from deltaic_ops.local.proxy_event import read_prelude

Handler = Callable[[dict[str, Any], Any], Any]
Head = Callable[[int, list[Header]], None]


class LocalContext:
    """The context that Lambda passes to a handler."""

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
        """Return the milliseconds until the function's timeout."""
        return max(int((self._deadline - time.monotonic()) * 1000), 0)


class StreamingContext(LocalContext):
    """The context for a streaming route; it receives the response that is sent to the Runtime API on Lambda."""

    def __init__(self, function: Function, request_id: str, exchange: HttpExchange, head: Head) -> None:
        super().__init__(function, request_id)
        self.stream = ClientStream(exchange, head)

    async def open_response_stream(self) -> "ClientStream":
        """Return the stream for the response, to which Lambda's prelude must be written first."""
        return self.stream


class ClientStream:
    """A ResponseStream (deltaic.http.runtime_stream) that sends the response to the gateway's client."""

    def __init__(self, exchange: HttpExchange, head: Head) -> None:
        self._exchange = exchange
        self._head = head
        self._received = b""
        self._started = False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send bytes as fast as the client reads; raises OSError if the client has disconnected."""
        self.take(data)
        if last:
            self.end()

    def take(self, data: bytes) -> None:
        """Parse the prelude with status and headers, then send all further bytes to the client."""
        if not self._started:
            self._received += data
            prelude = read_prelude(self._received)
            if prelude is None:
                return
            status, headers, data = prelude
            self._started = True
            self._head(status, headers)
        self._exchange.send(data)

    async def fail(self, error_type: str) -> None:
        """Leave the response without an end, so that the client detects that the response is incomplete."""

    def end(self) -> None:
        """End the response, if its prelude has been received."""
        if self._started:
            self._exchange.send(b"", last=True)

    async def accepted(self) -> None:
        """Return at once: this stream has no buffer, so all written bytes are already sent."""


class Functions:
    """The template's functions, each loaded when it is first called, or all by `load_all`."""

    def __init__(self, functions: Mapping[str, Function], variables: Iterable[str]) -> None:
        if missing := [name for name in variables if name not in os.environ]:
            raise RuntimeError(f"the functions need environment variables that are not set: {', '.join(missing)}")
        self._functions = functions
        self._handlers: dict[str, Handler] = {}
        self._locks = {logical_id: threading.Lock() for logical_id in functions}

    def __getitem__(self, logical_id: str) -> Function:
        return self._functions[logical_id]

    def call(self, logical_id: str, event: dict[str, Any], context: LocalContext) -> Any:
        """Run a function's handler in this thread with a new event loop; raises the handler's exceptions."""
        with _event_loop():
            return self._handler(logical_id)(event, context)

    def start(self, arn: str, event: dict[str, Any]) -> bool:
        """Run the function with this ARN in a background thread; return False if no function has this ARN."""
        for logical_id, function in self._functions.items():
            if function.arn == arn:
                context = LocalContext(function, str(uuid.uuid4()))
                threading.Thread(target=self.call, args=(logical_id, event, context), daemon=True).start()
                return True
        return False

    def load_all(self) -> None:
        """Load all functions and run their snapshot hooks, so that the first request is as fast as on Lambda.

        Raises the exceptions of the functions' modules. The hooks of AWS's runtime client are global, so call this only
        in a process that runs nothing else.
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
    """Set an event loop for this thread, because Mangum runs its app on the thread's event loop."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _load(logical_id: str, function: Function, module: str) -> ModuleType:
    """Import a function's module under a unique name, because the modules of all functions are `app.py`."""
    name = f"deltaic_function_{logical_id}"
    spec = importlib.util.spec_from_file_location(name, function.code / f"{module}.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"the function's folder {function.code} has no file {module}.py")
    loaded_module = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded_module
    spec.loader.exec_module(loaded_module)
    return loaded_module
