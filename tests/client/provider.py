"""Decides how a client test gets a share: one server, one recipient with a profile, tables put there from folders."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import Entry, FilledServer

SHARE = "Client_Share"
SCHEMA = "Tables"


class Provider(FilledServer):
    """A provider's side of one running server."""

    @property
    def profile(self) -> Path:
        return self.profile_of("reader")

    def put(self, name: str, folder: Path, at: str | None = None, **options: Any) -> str:
        """Copy a table's folder into the bucket, share it under `name`, and return the URL that clients open.

        `at` is the table's prefix in the bucket; its name, if it is not said.
        """
        self.upload(folder, at or name)
        self.admin.tables.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/{at or name}", **options)
        return self.url(name)

    def url(self, name: str) -> str:
        return f"{self.profile}#{SHARE}.{SCHEMA}.{name}"


def provide(folder: Path, **parameters: str) -> AbstractContextManager[Provider]:
    """Start a server with an empty share, granted to one recipient; `parameters` are the template's."""
    return Provider.running(folder, [Entry(SHARE, SCHEMA)], {"reader": [SHARE]}, parameters=parameters)
