"""Create the tables, the share and the recipient with which a stack is proved, and remove them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.aws_errors import to_operator_error
from deltaic.catalog.items import Recipient
from deltaic.errors import Conflict, NotFound, Unavailable
from deltaic.storage.locations import Location

SHARE, SCHEMA, READER = "deltaic_prove", "trial", "deltaic_prove_reader"
COMMENT = "Created by deltaic prove, which also removes it"
PLAIN, FILTERED, ENCRYPTED = "plain", "filtered", "encrypted"
LONG, WIDE = "x_long", "x_wide"
"""Tables without files: one lists many files, one has so many columns that its schema is 3 MB. Listed last."""
WIDE_COLUMNS = 40_000
_SITES = ("porto", "turku")
_OPTIONS: dict[str, dict[str, Any]] = {
    PLAIN: {"access_modes": ("url", "dir"), "history": True},
    FILTERED: {"partition_filter": "site = current_recipient('site')"},
}


@dataclass(frozen=True, slots=True)
class TrialCatalog:
    """Tables, share and recipient of a trial, which exist only while it runs."""

    admin: CatalogAdmin
    s3: Any
    storage: dict[str, str]
    """Settings of deltalake for S3."""
    location: str
    """URL of the folder for the trial's tables, in which all objects are deleted."""
    encrypted: str
    """URL of such a folder in a bucket with SSE-KMS, for one more table; empty for none."""
    files: int
    """Number of files in the longest list."""

    @contextmanager
    def created(self) -> Iterator[Recipient]:
        """Remove what an earlier trial left, create tables and yield their recipient; remove everything afterwards.

        Raises Conflict if another share has the trial's name, and errors of AWS as errors for operators.
        """
        try:
            self.remove()
            try:
                yield self._create()
            finally:
                self.remove()
        except ClientError as error:
            raise to_operator_error(error) from error

    def _create(self) -> Recipient:
        self.admin.shares.create(SHARE, comment=COMMENT)
        self.admin.schemas.create(SHARE, SCHEMA)
        for table, location in self._write_tables().items():
            self.admin.tables.create(SHARE, SCHEMA, table, location, **_OPTIONS.get(table, {}))
        recipient = self.admin.recipients.create(READER, properties={"site": _SITES[0]})
        self.admin.grants.create(READER, SHARE)
        return recipient

    def remove(self) -> None:
        """Delete the share, the recipient with its tokens, and all objects in the trial's folders."""
        with suppress(NotFound):
            if self.admin.shares.get(SHARE).comment != COMMENT:
                raise Conflict(f"share '{SHARE}' is not of an earlier trial: rename it, or use another stack")
            self.admin.shares.delete(SHARE, force=True)
        with suppress(NotFound):
            self.admin.recipients.delete(READER)
        for folder in (Location.parse(uri) for uri in (self.location, self.encrypted) if uri):
            pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=folder.bucket, Prefix=folder.key_prefix)
            for entry in (entry for page in pages for entry in page.get("Contents", ())):
                self.s3.delete_object(Bucket=folder.bucket, Key=entry["Key"])

    def _write_tables(self) -> dict[str, str]:
        """Write the tables, and return their locations by name."""
        import pyarrow as pa
        from deltalake import write_deltalake
        from deltalake.exceptions import DeltaError
        from deltalake.schema import Field, PrimitiveType, Schema
        from deltalake.transaction import AddAction, create_table_with_add_actions

        folders = dict.fromkeys((PLAIN, FILTERED, LONG, WIDE), self.location)
        folders |= {ENCRYPTED: self.encrypted} if self.encrypted else {}
        locations = {name: f"{folder}/{name}" for name, folder in folders.items()}
        rows = pa.table({"site": list(_SITES) * 2, "dose": pa.array(range(4), pa.int64())})
        files = [
            AddAction(f"part-{number:044d}.parquet", 1_000_000, {}, 0, data_change=True, stats="{}")
            for number in range(self.files)
        ]
        try:
            for name in locations.keys() - {LONG, WIDE}:
                write_deltalake(locations[name], rows, partition_by=["site"], storage_options=self.storage)
            for name, columns, actions in ((LONG, 1, files), (WIDE, WIDE_COLUMNS, [])):
                schema = Schema([Field(f"column_{number:06d}", PrimitiveType("long")) for number in range(columns)])
                create_table_with_add_actions(locations[name], schema, actions, storage_options=self.storage)
        except (DeltaError, OSError) as error:
            text = str(error).partition("\n")[0]
            raise Unavailable(f"cannot write to {self.location} ({text}): check bucket and permissions") from error
        return locations


def trial_folder(location: str) -> str:
    """Return the folder below a location that only trials use, because they delete it; raises InvalidParameter."""
    return f"{Location.parse(location).uri}/deltaic-prove-trial"
