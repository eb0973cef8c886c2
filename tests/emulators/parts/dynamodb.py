"""DynamoDB: LocalStack's provider with a running DynamoDB Local, on the port DYNAMODB_LOCAL_PORT.

LocalStack would download one from hosts that may be unreachable without its image. LocalEmu has a DynamoDB inside.
"""

import os

from emulators.parts.emulator import Emulator

PORT = "DYNAMODB_LOCAL_PORT"


def install(emulator: Emulator) -> None:
    """Have the provider use what runs; it neither starts nor stops it."""
    if not os.environ.get(PORT) or not emulator.has("services.dynamodb.server"):
        return
    server = emulator.module("services.dynamodb.server").DynamodbServer
    server.start_dynamodb = lambda _: True
    server.stop_dynamodb = server.wait_for_dynamodb = lambda _: None
