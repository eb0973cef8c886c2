"""Small tables in the embedded AWS, in separate shares, and checkpoint runs over them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.table_locations import SharedLocation, SharedLocations
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.log_writer import LogWriter
from deltaic.storage.objects import ObjectTableStore
from deltaic_checkpoint.checkpoint_run import CheckpointResult, RunContext, run_checkpoints
from deltaic_ops.local.embedded import EmbeddedAws
from deltalake import write_deltalake
from pipeline.place import BUCKET, CATALOG, TOKENS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass
class Tables:
    """The tables of one test, written by deltalake, and the clients for checkpoint runs."""

    s3: "S3Client"
    aws: EmbeddedAws
    dynamo: Dynamo
    folder: str
    disk: Path
    clock: Callable[[], float] = time.time
    results: list[CheckpointResult] = field(default_factory=list)

    @property
    def admin(self) -> CatalogAdmin:
        return CatalogAdmin(CATALOG, TOKENS, self.dynamo)

    @property
    def leases(self) -> Leases:
        return Leases(CATALOG, self.dynamo, self.clock)

    @property
    def context(self) -> RunContext:
        checkpointing = SharedLocations(CATALOG, self.dynamo, self.clock)
        return RunContext(checkpointing, self.leases, self.log, lambda: 900.0, self.clock)

    def location(self, name: str) -> str:
        return f"s3://{BUCKET}/{self.folder}/{name}"

    def write(self, name: str, commits: int, **options: Any) -> str:
        """Append `commits` times with delta-rs, which writes no checkpoint before version 100.

        It writes to the disk, which is faster, and then uploads the commits.
        """
        log = self.disk / name / "_delta_log"
        uploaded = set(log.glob("*.json"))
        for number in range(commits):
            rows = pa.table({"id": [number], "name": [f"row {number}"]})
            write_deltalake(str(log.parent), rows, mode="append", **options)
        for commit in sorted(set(log.glob("*.json")) - uploaded):
            key = f"{self.folder}/{name}/_delta_log/{commit.name}"
            self.s3.put_object(Bucket=BUCKET, Key=key, Body=commit.read_bytes())
        return self.location(name)

    def share(self, name: str, *, checkpoint: bool = True, storage: str = "") -> None:
        """Add the table to the catalog."""
        self.admin.tables.create(
            self.folder, "default", name, self.location(name), checkpoint=checkpoint, storage=storage
        )

    def log(self, table: SharedLocation) -> tuple[ObjectTableStore, LogWriter]:
        environment = self.aws.environment
        keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
        storage = StorageConfig(endpoint=self.aws.endpoint, path_style=True)
        locations = TableLocations(Location.parse(table.location))
        return ObjectTableStore(locations, storage, lambda: keys), LogWriter(locations, storage, lambda: keys)

    def store(self, name: str) -> ObjectTableStore:
        return self.log(SharedLocation(self.location(name), ""))[0]

    def objects(self, name: str) -> dict[str, str]:
        """Return the names and tags of all objects of a table's log."""
        listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{self.folder}/{name}/_delta_log/")
        return {entry["Key"].rpartition("/")[2]: entry["ETag"] for entry in listed.get("Contents", ())}

    def run_checkpoints(self, **context_changes: Any) -> dict[str, int]:
        self.results.clear()
        return run_checkpoints(replace(self.context, **context_changes), "the tests", self.results.append)

    def result_for(self, name: str) -> CheckpointResult:
        (match,) = [result for result in self.results if result.location == self.location(name)]
        return match


@pytest.fixture
def tables(s3: "S3Client", embedded_aws: EmbeddedAws, dynamo: Dynamo, tmp_path: Path) -> Iterator[Tables]:
    """Yield the tables of this test, which no other test's checkpoint run includes."""
    folder = tmp_path.name.replace("_", "-")
    new_tables = Tables(s3, embedded_aws, dynamo, folder, tmp_path)
    new_tables.admin.shares.create(folder)
    new_tables.admin.schemas.create(folder, "default")
    yield new_tables
    new_tables.admin.shares.delete(folder, force=True)
