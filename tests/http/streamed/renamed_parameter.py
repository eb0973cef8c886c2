"""The function with a client whose methods have another name of their first parameter."""

import importlib
from typing import Any

from awslambdaric import lambda_runtime_client

CLIENT = lambda_runtime_client.BaseLambdaRuntimeClient
POST = CLIENT.post_invocation_result


def post_invocation_result(self: Any, request_id: str, *arguments: Any) -> None:
    POST(self, request_id, *arguments)


CLIENT.post_invocation_result = post_invocation_result

handler = importlib.import_module("app").handler
