"""The function after a monitoring tool has patched AWS's client, as Sentry's integration does."""

import importlib
from typing import Any

from awslambdaric import bootstrap

CALLER = bootstrap.handle_event_request


def wrapped(*arguments: Any, **named: Any) -> Any:
    return CALLER(*arguments, **named)


bootstrap.handle_event_request = wrapped

handler = importlib.import_module("app").handler
