"""Start a server with one recipient, and share tables from folders on it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from deltaic_ops.local.resources import DATA_BUCKET
from filled_server import Entry, FilledServer

SHARE = "Client_Share"
SCHEMA = "Tables"


class Provider(FilledServer):
    """Provider's side of a running server."""

    @property
    def profile(self) -> Path:
        return self.profile_of("reader")

    def put(self, name: str, folder: Path, at: str | None = None, **options: Any) -> str:
        """Upload a table's folder, share it under `name`, and return its URL for clients.

        `at` is the table's prefix in the bucket, by default its name.
        """
        self.upload(folder, at or name)
        self.admin.tables.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/{at or name}", **options)
        return self.url(name)

    def url(self, name: str) -> str:
        return f"{self.profile}#{SHARE}.{SCHEMA}.{name}"


def provide(folder: Path, **parameters: str) -> AbstractContextManager[Provider]:
    """Start a server with an empty share and a recipient; `parameters` are those of the template."""
    return Provider.running(folder, [Entry(SHARE, SCHEMA)], {"reader": [SHARE]}, parameters=parameters)
