"""Decides how a client test gets a share: one server, one recipient with a profile, tables put there from folders."""

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.session
from contract.recipient import Recipient
from deltaic.catalog.admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import Stack, local_stack
from deltaic_ops.profile import profile_place

SHARE = "Client_Share"
SCHEMA = "Tables"


@dataclass(frozen=True)
class Provider:
    """A provider's side of one running server."""

    stack: Stack
    admin: CatalogAdmin
    profile: Path
    """The recipient's profile file."""

    def put(self, name: str, folder: Path, at: str | None = None, **options: Any) -> str:
        """Copy a table's folder into the bucket, share it under `name`, and return the URL that clients open.

        `at` is the table's prefix in the bucket; its name, if it is not said.
        """
        self.upload(folder, at or name)
        self.admin.tables.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/{at or name}", **options)
        return self.url(name)

    def upload(self, folder: Path, prefix: str) -> None:
        """Copy a folder into the bucket; commits after all else and in their order, since S3 gives them their times."""
        s3 = client("s3", self.stack.environment)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        commits = [path for path in files if path.parent.name == "_delta_log" and path.suffix == ".json"]

        def put(path: Path) -> None:
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            s3.put_object(Bucket=DATA_BUCKET, Key=key, Body=path.read_bytes())

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(put, [path for path in files if path not in commits]))
        for path in commits:
            put(path)

    def recipient(self) -> Recipient:
        """Return the recipient of the profile, to ask by plain HTTP."""
        told = json.loads(self.profile.read_text(encoding="utf-8"))
        return Recipient(told["endpoint"], told["bearerToken"])

    def url(self, name: str) -> str:
        return f"{self.profile}#{SHARE}.{SCHEMA}.{name}"


@contextmanager
def provide(folder: Path) -> Iterator[Provider]:
    """Start a server with an empty share, granted to one recipient."""
    os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")  # inherited by the gateway's process
    with local_stack(folder / "state", parameters={"LogLevel": "ERROR"}) as stack:
        known = stack.environment
        dynamo = Dynamo(lambda: client("dynamodb", known))
        admin = CatalogAdmin(known["CATALOG_TABLE"], known["TOKENS_TABLE"], dynamo)
        admin.shares.create(SHARE)
        admin.schemas.create(SHARE, SCHEMA)
        reader = admin.recipients.create("reader")
        admin.grants.create("reader", SHARE)
        issued = admin.tokens.create(reader)
        profile = folder / "reader.share"
        with profile_place(profile) as place:
            place.write(stack.endpoint, issued)
        yield Provider(stack, admin, profile)
        stack.check()


def client(service: Any, known: Mapping[str, str]) -> Any:
    """Return a client of the embedded AWS."""
    session = boto3.Session(
        known["AWS_ACCESS_KEY_ID"],
        known["AWS_SECRET_ACCESS_KEY"],
        region_name=known["AWS_REGION"],
        botocore_session=botocore.session.get_session(),
    )
    return session.client(service, endpoint_url=known["AWS_ENDPOINT_URL"])
