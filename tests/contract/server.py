"""Decides what the contract is tested against: the whole server on this machine, filled by its own administration."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from contract.recipient import Recipient, Table
from contract.tables import ENTRIES, Shelf
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Recipient as Account
from deltaic.catalog.token_admin import TokenAdmin
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import Stack, local_stack

SHARES = tuple(f"share{number}" for number in (1, 2, 5, 6, 7, 8, 9))
"""Granted to alice; bob has share2 and secret_share, carol has nothing."""


@dataclass(frozen=True, repr=False)
class Server:
    """A running server with tables, shares and recipients."""

    stack: Stack
    shelf: Shelf
    admin: CatalogAdmin
    accounts: Mapping[str, Account]
    recipients: Mapping[str, Recipient]

    def __repr__(self) -> str:
        """Be short where a failing test shows its arguments."""
        return f"<Server at {self.stack.endpoint}>"

    @property
    def environment(self) -> Mapping[str, str]:
        return self.stack.environment

    @property
    def alice(self) -> Recipient:
        return self.recipients["alice"]

    def table(self, name: str, recipient: str = "alice") -> Table:
        """Return the table of that name, in the first share that has it."""
        entry = next(entry for entry in ENTRIES if entry.table == name)
        return Table(self.recipients[recipient], entry.share, entry.schema, name)

    def client(self, service: Any) -> Any:
        return client_of(service, self.environment)

    def expired_token(self) -> str:
        """Issue carol a token whose time is over."""
        yesterday = time.time() - 86_400
        clocked = TokenAdmin(
            self.environment["CATALOG_TABLE"],
            self.environment["TOKENS_TABLE"],
            _dynamo(self.environment),
            clock=lambda: yesterday,
        )
        return clocked.create(self.accounts["carol"], timedelta(hours=1)).secret

    def revoked_token(self) -> str:
        """Issue carol a token and revoke it before it was ever used."""
        issued = self.admin.tokens.create(self.accounts["carol"])
        self.admin.tokens.revoke(self.accounts["carol"], issued.token.id)
        return issued.secret


@contextmanager
def serve(state: Path) -> Iterator[Server]:
    """Start the embedded AWS and the gateway, write the tables, fill the catalog, issue the tokens."""
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")  # inherited by the gateway's process
    with local_stack(state, parameters={"LogLevel": "ERROR"}) as stack:
        known = stack.environment
        options = {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
        options |= {name: value for name, value in known.items() if name.startswith("AWS_")}
        shelf = Shelf(client_of("s3", known), DATA_BUCKET, options)
        shelf.fill()
        admin = catalog_of(known)
        _fill(admin)
        accounts = {name: admin.recipients.create(name) for name in ("alice", "bob", "carol")}
        for name in SHARES:
            admin.grants.create("alice", name)
        for name in ("share2", "secret_share"):
            admin.grants.create("bob", name)
        recipients = {
            name: Recipient(stack.endpoint, admin.tokens.create(account).secret) for name, account in accounts.items()
        }
        yield Server(stack, shelf, admin, accounts, recipients)
        stack.check()


def _fill(admin: CatalogAdmin) -> None:
    made: set[str] = set()
    for entry in ENTRIES:
        if entry.share not in made:
            admin.shares.create(entry.share)
        if f"{entry.share}.{entry.schema}" not in made:
            admin.schemas.create(entry.share, entry.schema)
        made |= {entry.share, f"{entry.share}.{entry.schema}"}
        location = f"s3://{DATA_BUCKET}/{entry.location or entry.table}"
        admin.tables.create(entry.share, entry.schema, entry.table, location, **entry.options)
    admin.shares.create("share5")
    admin.schemas.create("share5", "default")
    admin.shares.create("share6", display_name="Six", comment="no schemas", properties={"kind": "empty"})


def catalog_of(known: Mapping[str, str]) -> CatalogAdmin:
    """Return the administration of the catalog that a stack's variables name."""
    secrets = cache(lambda: client_of("secretsmanager", known))
    return CatalogAdmin(known["CATALOG_TABLE"], known["TOKENS_TABLE"], _dynamo(known), secrets)


def client_of(service: Any, known: Mapping[str, str]) -> Any:
    """Return a client of the AWS that a stack's variables name."""
    session = boto3.Session(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"], region_name=known["AWS_REGION"])
    return session.client(service, endpoint_url=known["AWS_ENDPOINT_URL"])


def _dynamo(known: Mapping[str, str]) -> Dynamo:
    def connect() -> Any:
        return botocore.session.get_session().create_client(
            "dynamodb",
            region_name=known["AWS_REGION"],
            endpoint_url=known["AWS_ENDPOINT_URL"],
            aws_access_key_id=known["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
        )

    return Dynamo(connect)
