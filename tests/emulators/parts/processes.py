"""Run functions as processes of this machine: AWS's client in each, the Runtime API between, layers on its path.

The emulator requests an executor for a version of a function: one environment, which processes one event at a time.
`FUNCTIONS_PYTHON` is the Python that runs functions (with awslambdaric), `FUNCTIONS_LOGS` the folder of their output.
"""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emulators.parts.emulator import Emulator
from emulators.parts.runtime_api import Outcome, RuntimeApi
from emulators.parts.runtime_process import runtime_process
from emulators.parts.streams import Streams

PYTHON = "FUNCTIONS_PYTHON"
LOGS = "FUNCTIONS_LOGS"
ANSWER_LIMIT = 6 * 1024 * 1024
INHERITED = ("LANG", "PATH", "TMPDIR")


class Executor:
    """An environment of a function; the emulator calls its methods."""

    emulator: Emulator
    streams: Streams

    def __init__(self, id: str, function_version: Any) -> None:  # noqa: A002 -- the emulator passes it by name
        self._version = function_version
        self._log = Path(os.environ[LOGS]) / f"{function_version.id.function_name}-{id[:8]}.log"
        self._told: dict[str, str] = {}
        self._process = ExitStack()
        self._api: RuntimeApi | None = None

    def start(self, env_vars: dict[str, Any]) -> None:
        """Start the process."""
        config = self._version.config
        code = Path(config.code.get_unzipped_code_location())
        layers = [Path(layer.code.get_unzipped_code_location()) for layer in config.layers if layer.code]
        self._told = {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            **{name: str(value) for name, value in env_vars.items()},
            "LAMBDA_TASK_ROOT": str(code),
            "PYTHONPATH": os.pathsep.join(map(str, [code, *(layer / "python" for layer in layers)])),
        }
        self._run()

    def stop(self) -> None:
        """End the process."""
        self._api = None
        self._process.close()

    def invoke(self, payload: dict[str, str], function_timeout: int | None = None) -> Any:
        """Send an event to the process and return its result in the emulator's format."""
        api = self._api or self._run()
        event = json.loads(payload["payload"] or "null")
        stream = self.streams.stream_of(event)
        pieces: list[bytes] = []
        log_start = self._log.stat().st_size
        seconds = float(function_timeout or self._version.config.timeout)
        outcome = api.invoke(event, sink=stream.take if stream else pieces.append, seconds=seconds)
        if api.init_error is not None or outcome.error_type == "Sandbox.Timedout":
            self.stop()  # as on Lambda, the next event starts a new process
        if stream is not None:
            if outcome.mode == "whole":
                stream.take(outcome.body)
            stream.end(failed=outcome.mode == "error" or bool(outcome.error_type))
        answer = limited(outcome, b"".join(pieces))
        with self._log.open("rb") as log:
            log.seek(log_start)
            log_text = log.read().decode("utf-8", "replace")
        models = self.emulator.module("services.lambda_.invocation.lambda_models")
        return models.InvocationResult(
            request_id=payload["invoke-id"], payload=answer.body, is_error=answer.mode == "error", logs=log_text
        )

    def get_address(self) -> str:
        """Return the address of the process."""
        return "127.0.0.1"

    get_endpoint_from_executor = get_address

    def get_runtime_endpoint(self) -> str:
        """Return the address of its Runtime API."""
        return f"http://{self._api.address}" if self._api else ""

    def get_logs(self) -> str:
        """Return its printed output."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @classmethod
    def prepare_version(cls, function_version: Any) -> None:
        """Unpack code and layers."""
        function_version.config.code.prepare_for_execution()
        for layer in function_version.config.layers:
            if layer.code:
                layer.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: Any) -> None:
        """Keep the unpacked code, which other processes may use."""

    @classmethod
    def validate_environment(cls) -> bool:
        """Return that functions can run here."""
        return True

    def _run(self) -> RuntimeApi:
        self._process = ExitStack()
        output = self._process.enter_context(self._log.open("ab"))
        started = runtime_process(
            Path(self._told["LAMBDA_TASK_ROOT"]),
            self._told,
            handler=self._told["_HANDLER"],
            python=os.environ[PYTHON],
            inherited={},
            output=output,
        )
        self._api = self._process.enter_context(started)
        return self._api


def limited(outcome: Outcome, streamed: bytes) -> Outcome:
    """Return a buffered response, or Lambda's error for one over 6 MB."""
    if outcome.mode == "stream":
        return Outcome("whole", streamed)
    if outcome.mode == "whole" and len(outcome.body) > ANSWER_LIMIT:
        error = {
            "errorMessage": f"Response payload size exceeded maximum allowed payload size ({ANSWER_LIMIT} bytes).",
            "errorType": "Function.ResponseSizeTooLarge",
        }
        return Outcome("error", json.dumps(error).encode(), error_type=error["errorType"])
    return outcome


class _Plugin:
    """Registered function of the emulator by name."""

    def load(self) -> type[Executor]:
        """Return the executor."""
        return Executor


class _Register:
    """Register of executors that returns this executor for every name."""

    def exists(self, name: str) -> bool:
        """Return that the name is registered."""
        return bool(name)

    def load(self, name: str) -> _Plugin:  # noqa: ARG002 -- the register's signature
        """Return its plug-in."""
        return _Plugin()


def install(emulator: Emulator, streams: Streams) -> None:
    """Run functions here instead of in Docker."""
    Executor.emulator, Executor.streams = emulator, streams
    emulator.module("services.lambda_.invocation.runtime_executor").EXECUTOR_PLUGIN_MANAGER = _Register()
    # Two calls of CloudWatch per event take half the time of a request, and no test reads them.
    manager = emulator.module("services.lambda_.invocation.version_manager")
    manager.record_cw_metric_invocation = manager.record_cw_metric_error = lambda **_: None
