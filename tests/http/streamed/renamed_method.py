"""The function with a client whose method for results has another name."""

import importlib
from typing import Any

from awslambdaric import lambda_runtime_client

CLIENT = lambda_runtime_client.BaseLambdaRuntimeClient
CLIENT.post_outcome = CLIENT.post_invocation_result


def _missing(self: Any, name: str) -> Any:
    if name == "post_invocation_result":
        return self.post_outcome
    raise AttributeError(name)


CLIENT.__getattr__ = _missing
del CLIENT.post_invocation_result

handler = importlib.import_module("app").handler
