"""Run the server in the same way as `deltaic serve`, with the measured tables shared with one recipient."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.local.resources import connect
from deltaic_ops.local.stack import gateway_over, local_stack

from bench import measured_tables
from bench.http_timing import Client
from bench.object_store import REGION, ObjectStore

START_SECONDS = 30.0
FIRST_DAY = f"date = DATE '{measured_tables.FIRST_DAY.isoformat()}'"
"""Partition filter of the filtered tables, which selects one partition."""


def row_filtered(name: str) -> str:
    """Return the shared name of a table's filtered variant, which has only the rows of the first day."""
    return f"{name}_first_day"


@dataclass(frozen=True, slots=True)
class Server:
    """A server process (the local gateway) and an HTTP client for it."""

    client: Client
    pid: int


@dataclass(frozen=True, slots=True)
class Service:
    """The embedded AWS with a catalog and IAM roles, for which server processes can be started."""

    environment: Mapping[str, str]
    state: Path
    token: str

    @contextmanager
    def fresh(self) -> Iterator[Server]:
        """Start a separate server process; yields the server after it has loaded its functions and responded."""
        with gateway_over(self.environment, self.state) as stack:
            client = Client(stack.endpoint, self.token)
            wait_until_loaded(client)
            yield Server(client, stack.processes["gateway"])
            stack.check()


@contextmanager
def service(objects: ObjectStore, locations: Mapping[str, str], state: Path) -> Iterator[Service]:
    """Run the embedded AWS, share tables (`locations` by name) and create a recipient's token.

    As on AWS, URLs are signed with a session of the signing role in template.yaml, so they have a session token.
    """
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")
    with local_stack(state, parameters={"LogLevel": "WARNING"}) as stack:
        environment = dict(stack.environment)
        admin = catalog_of(environment)
        _share(admin, objects, locations, environment["SIGNING_ROLE_ARN"])
        account = admin.recipients.create("reader")
        admin.grants.create("reader", "bench")
        token = admin.tokens.create(account).secret
        stack.check()
        variables = {name: value for name, value in environment.items() if name != "AWS_SESSION_TOKEN"}
        yield Service(
            variables | {"POWERTOOLS_LOG_LEVEL": "WARNING", "LOG_LEVEL": "WARNING"},
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
            "bench", "logs", row_filtered(name), location, storage="seaweedfs", history=True, partition_filter=FIRST_DAY
        )


def catalog_of(environment: Mapping[str, str]) -> CatalogAdmin:
    """Return the admin client for a stack's catalog, configured by the stack's environment variables."""
    dynamo = Dynamo(lambda: connect(environment)["dynamodb"])
    return CatalogAdmin(environment["CATALOG_TABLE"], environment["TOKENS_TABLE"], dynamo)


def wait_until_loaded(client: Client) -> None:
    """List the shares repeatedly until the server responds; raises the last error after START_SECONDS."""
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
