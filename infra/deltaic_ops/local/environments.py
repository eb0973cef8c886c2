"""Decides how functions run when they shall run as on Lambda: each in processes of its own, under AWS's own client.

It is slower to start than threads (functions.py) and closer to AWS: one request at a time in an environment, another
environment for each request beside it, the function's own variables, its time limit, and the Runtime API between.
"""

import json
import threading
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

from deltaic_ops.deploy.template import Function, Template
from deltaic_ops.local.functions import LocalContext, StreamingContext
from deltaic_ops.local.proxy_event import MalformedAnswer
from deltaic_ops.local.runtime_api import Outcome, RuntimeApi
from deltaic_ops.local.runtime_process import runtime_process


class FunctionFailed(Exception):
    """The function raised, could not start or ran out of time; its text is the function's own message."""


class Environments(AbstractContextManager["Environments"]):
    """The template's functions, an idle environment of each kept for the next request; use it as a context manager."""

    def __init__(self, template: Template) -> None:
        self._functions = template.functions
        self._idle: dict[str, list[_Environment]] = {logical_id: [] for logical_id in template.functions}
        self._all: set[_Environment] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            ending, self._all = self._all, set()
        for environment in ending:
            environment.end()

    def __getitem__(self, logical_id: str) -> Function:
        return self._functions[logical_id]

    def load_all(self) -> None:
        """Nothing is started before it is needed."""

    def call(self, logical_id: str, event: dict[str, Any], context: LocalContext) -> Any:
        """Run the function; returns a handler's answer, raises FunctionFailed, MalformedAnswer, ClientLeft."""
        function = self._functions[logical_id]
        environment = self._take(function)
        received: list[bytes] = []
        sink = context.stream.take if isinstance(context, StreamingContext) else received.append
        outcome = environment.api.invoke(event, sink=sink, seconds=function.timeout)
        if environment.api.init_error is None and outcome.error_type != "Sandbox.Timedout":
            with self._lock:
                self._idle[logical_id].append(environment)
        else:
            environment.end()
        return _answer(outcome, context)

    def _take(self, function: Function) -> "_Environment":
        with self._lock:
            if idle := self._idle[function.logical_id]:
                return idle.pop()
            environment = _Environment(function)
            self._all.add(environment)
            return environment


class _Environment:
    """One process of a function."""

    def __init__(self, function: Function) -> None:
        self._process = ExitStack()
        started = runtime_process(function.code, function.environment, handler=function.handler)
        self.api: RuntimeApi = self._process.enter_context(started)

    def end(self) -> None:
        """End the process; safe to call twice."""
        self._process.close()


def _answer(outcome: Outcome, context: LocalContext) -> Any:
    if outcome.fault is not None:
        raise outcome.fault
    if outcome.mode == "error":
        raise FunctionFailed(json.loads(outcome.body or b"{}").get("errorMessage", outcome.error_type))
    if outcome.mode == "whole":
        return outcome.body if outcome.content_type == "application/unknown" else json.loads(outcome.body)
    if not isinstance(context, StreamingContext):
        raise MalformedAnswer("a function streamed on a route that does not")
    context.stream.end(failed=bool(outcome.error_type))
    return None
