"""A Delta copy follows random commits of its source, also when downloads are killed at any step."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from client.provider import SCHEMA, SHARE
from deltaic_ops.local.resources import DATA_BUCKET
from laws import tries
from pull.rows import rows_of_folder

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from client.provider import Provider


class ChangingTable:
    """A source table without a key, changed at random by every operation of `deltalake`."""

    def __init__(self, provider: Provider, name: str, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 -- not for secrets
        self.name = name
        environment = provider.environment
        self.options = {
            "AWS_ACCESS_KEY_ID": environment["AWS_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": environment["AWS_SECRET_ACCESS_KEY"],
            "AWS_REGION": environment["AWS_REGION"],
            "AWS_ENDPOINT_URL": environment["AWS_ENDPOINT_URL"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }
        self.url = f"s3://{DATA_BUCKET}/{name}"
        self.append()
        provider.admin.tables.create(SHARE, SCHEMA, name, self.url)  # no shared hitable, no change feed

    @property
    def table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.url, storage_options=self.options)

    def append(self) -> None:
        ids = [self.chance.randrange(4) for _ in range(self.chance.randrange(1, 5))]
        rows = pa.table({"id": pa.array(ids, pa.int64()), "part": ["x" if number % 2 else "y" for number in ids]})
        deltalake.write_deltalake(
            self.url, rows, mode="append", partition_by=["part"], storage_options=self.options, schema_mode="merge"
        )

    def overwrite(self) -> None:
        rows = pa.table({"id": pa.array([1, 1], pa.int64()), "part": ["x", "x"]})
        deltalake.write_deltalake(
            self.url, rows, mode="overwrite", partition_by=["part"], storage_options=self.options, schema_mode="merge"
        )

    def delete(self) -> None:
        self.table.delete(f"id = {self.chance.randrange(4)}")

    def update(self) -> None:
        self.table.update({"id": "id + 1"}, predicate=f"id < {self.chance.randrange(4)}")

    def compact(self) -> None:
        self.table.optimize.compact()

    def restore(self) -> None:
        self.table.restore(self.chance.randrange(max(1, self.table.version())))

    def widen(self) -> None:
        name = f"c{self.table.version()}"
        self.table.alter.add_columns([deltalake.Field(name, deltalake.schema.PrimitiveType("string"))])

    def change(self) -> None:
        steps = (
            self.append,
            self.append,
            self.overwrite,
            self.delete,
            self.update,
            self.compact,
            self.restore,
            self.widen,
        )
        self.chance.choice(steps)()

    def rows(self) -> Counter[str]:
        rows = deltalake.QueryBuilder().register("t", self.table).execute("SELECT * FROM t").read_all()
        return Counter(repr(row) for row in pa.table(rows).to_pylist())


def rows_of(copy: Path) -> Counter[str]:
    return Counter(repr(row) for row in rows_of_folder(copy).to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(tries(2)))
def test_copy_follows_random_changes(deltaic: Deltaic, provider: Provider, tmp_path: Path, seed: int) -> None:
    source = ChangingTable(provider, f"table_{seed}", seed)
    for _ in range(6):
        result = deltaic.json(f"pull {provider.url(source.name)} copy/")
        assert result["version"] == source.table.version()
        assert rows_of(tmp_path / "copy") == source.rows()
        for _ in range(source.chance.randrange(1, 3)):
            source.change()
    copy = deltalake.DeltaTable(str(tmp_path / "copy"))
    app = f"deltaic-pull/{SHARE}.{SCHEMA}.{source.name}".lower()
    assert copy.transaction_version(app) == result["version"]
    copy.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    deltaic.done(f"pull {provider.url(source.name)} copy/")
    assert rows_of(tmp_path / "copy") == source.rows()


CHECK = """
import collections, pathlib, sys
import delta_kernel_rust_sharing_wrapper as kernel

copy = pathlib.Path({copy!r})
rows = None
if list((copy / "_delta_log").glob("0*.json")):
    interface = kernel.PythonInterface(copy.as_uri())
    scan = kernel.ScanBuilder(kernel.Table(copy.as_uri()).snapshot(interface)).build().execute(interface)
    rows = dict(collections.Counter(repr(row) for row in scan.read_all().to_pylist()))
assert rows in ([{after!r}] if sys.argv[1] == "True" else [{before!r}, {after!r}]), rows
"""


@pytest.mark.slow
def test_killed_download_leaves_the_version_before_or_after(provider: Provider, tmp_path: Path) -> None:
    source, copy = ChangingTable(provider, "killed", 5), tmp_path / "copy"
    before: dict[str, int] | None = None
    for _ in range(2):
        check = tmp_path / "check.py"
        check.write_text(CHECK.format(copy=str(copy), before=before, after=dict(source.rows())))
        script = Path(__file__).with_name("killed_pulls.py")
        line = [sys.executable, str(script), str(check), "pull", provider.url(source.name), f"{copy}/"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 5
        before = dict(source.rows())
        source.append()
        source.update()


@pytest.mark.slow
def test_follow_updates_the_copy_until_it_is_stopped(provider: Provider, tmp_path: Path) -> None:
    source, copy = ChangingTable(provider, "followed", 7), tmp_path / "copy"
    program = Path(sys.executable).with_name("deltaic")
    line: list[Any] = [program, "pull", provider.url(source.name), f"{copy}/", "--follow", "--every", "1"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as running:
        try:
            for _ in range(3):
                expected, until = source.rows(), time.monotonic() + 60
                while not list((copy / "_delta_log").glob("0*.json")) or rows_of(copy) != expected:
                    assert time.monotonic() < until
                    assert running.poll() is None
                    time.sleep(0.5)
                source.append()
                source.delete()
        finally:
            running.send_signal(signal.SIGINT)
        stderr = running.communicate(timeout=60)[1]
    assert "Traceback" not in stderr
    assert f"{copy}/ is version " in stderr
