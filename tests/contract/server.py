"""Run the local server with the contract's tables and recipients."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from contract.recipient import Recipient, Table
from contract.tables import ENTRIES, Shelf
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import Entry, FilledServer, dynamo_of

SHARES = tuple(f"share{number}" for number in (1, 2, 5, 6, 7, 8, 9))
RECIPIENTS = {"alice": SHARES, "bob": ("share2", "secret_share"), "carol": ()}


class Server(FilledServer):
    """A running server with tables, shares and recipients."""

    @cached_property
    def shelf(self) -> Shelf:
        options = {name: value for name, value in self.environment.items() if name.startswith("AWS_")}
        options |= {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
        return Shelf(self.client("s3"), DATA_BUCKET, options)

    @property
    def alice(self) -> Recipient:
        return self.recipient("alice")

    def table(self, name: str, recipient: str = "alice") -> Table:
        """Return the table of that name, in the first share that has it."""
        entry = next(entry for entry in ENTRIES if entry.table == name)
        return Table(self.recipient(recipient), entry.share, entry.schema, name)

    def expired_token(self) -> str:
        """Issue carol a token whose time is over."""
        yesterday = time.time() - 86_400
        names = self.environment["CATALOG_TABLE"], self.environment["TOKENS_TABLE"]
        clocked = TokenAdmin(*names, dynamo_of(self.environment), clock=lambda: yesterday)
        return clocked.create(self.readers["carol"].account, timedelta(hours=1)).secret

    def revoked_token(self) -> str:
        """Issue carol a token and revoke it before it was ever used."""
        carol = self.readers["carol"].account
        issued = self.admin.tokens.create(carol)
        self.admin.tokens.revoke(carol, issued.token.id)
        return issued.secret


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """Start the server, and write its tables."""
    more = (
        Entry("share5", "default"),
        Entry("share6", options={"display_name": "Six", "comment": "no schemas", "properties": {"kind": "empty"}}),
    )
    with Server.running(folder, (*ENTRIES, *more), RECIPIENTS) as server:
        server.shelf.fill()
        yield server
