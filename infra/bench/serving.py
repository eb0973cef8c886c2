"""Decides what is measured: the product as `deltaic serve` runs it, over the measured tables, read by one recipient."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.local.aws_limits import Limits
from deltaic_ops.local.stack import Stack, gateway_over, local_stack

from bench import tables
from bench.client import Client
from bench.objects import REGION, ObjectStore

START_SECONDS = 30.0
FIRST_DAY = f"date = DATE '{tables.FIRST_DAY.isoformat()}'"
"""The filter of narrowed tables: one partition."""


def narrowed(name: str) -> str:
    """Return the name under which a table is shared with no more than its first day's rows."""
    return f"{name}_first_day"


@dataclass(frozen=True, slots=True)
class Server:
    """A gateway process and its only recipient."""

    client: Client
    pid: int


@dataclass(frozen=True, slots=True)
class Service:
    """Everything but the gateway: the embedded AWS with catalog and roles, the store with the tables."""

    environment: Mapping[str, str]
    state: Path
    token: str

    @contextmanager
    def fresh(self, *, limits: Limits = "none") -> Iterator[Server]:
        """Start a gateway process of its own; yields when its functions are loaded and it has answered a listing."""
        with gateway_over(self.environment, self.state, limits=limits) as stack:
            client = Client(stack.endpoint, self.token)
            wait_until_loaded(client)
            yield Server(client, stack.processes["gateway"])
            stack.check()


@contextmanager
def service(objects: ObjectStore, locations: Mapping[str, str], state: Path) -> Iterator[Service]:
    """Run the embedded AWS, share tables (name: location) and issue one token.

    URLs are signed by a session of the template's signing role, as on AWS, so they carry a session token.
    """
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")
    with local_stack(state, parameters={"LogLevel": "WARNING"}) as stack:
        known = dict(stack.environment)
        dynamo = Dynamo(lambda: _dynamo(known))
        admin = CatalogAdmin(known["CATALOG_TABLE"], known["TOKENS_TABLE"], dynamo)
        _share(admin, objects, locations, known["SIGNING_ROLE_ARN"])
        account = admin.recipients.create("reader")
        admin.grants.create("reader", "bench")
        token = admin.tokens.create(account).secret
        _check(stack)
        variables = {name: value for name, value in known.items() if name != "AWS_SESSION_TOKEN"}
        yield Service(
            variables | {"POWERTOOLS_LOG_LEVEL": "WARNING", "LOG_LEVEL": "WARNING", "UNREAD_STATISTICS": "disabled"},
            state / "gateways",
            token,
        )


def _share(admin: CatalogAdmin, objects: ObjectStore, locations: Mapping[str, str], role: str) -> None:
    admin.storages.create("seaweedfs", endpoint=objects.endpoint, region=REGION, path_style=True, role_arn=role)
    admin.shares.create("bench")
    admin.schemas.create("bench", "logs")
    for name, location in locations.items():
        admin.tables.create("bench", "logs", name, location, storage="seaweedfs", history=True)
        admin.tables.create(
            "bench", "logs", narrowed(name), location, storage="seaweedfs", history=True, partition_filter=FIRST_DAY
        )


def _check(stack: Stack) -> None:
    stack.check()


def wait_until_loaded(client: Client) -> None:
    """Ask for the shares until they are listed; raises what the last request raised after START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            client.get("/shares")
        except (OSError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _dynamo(known: Mapping[str, str]) -> Any:
    return botocore.session.get_session().create_client(
        "dynamodb",
        region_name=known["AWS_REGION"],
        endpoint_url=known["AWS_ENDPOINT_URL"],
        aws_access_key_id=known["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
    )
