"""Test reading a table's folder with vended credentials, and the warnings about readers that fail."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from client.provider import SCHEMA, SHARE
from delta_tables.folder_store import FolderStore
from deltaic.delta.log import DeltaLog
from deltaic_ops.inspection.client_limits import folder_limits
from deltaic_ops.inspection.shared_schema import SharedSchema
from deltaic_ops.local.resources import DATA_BUCKET
from deltalake.exceptions import DeltaError, DeltaProtocolError
from golden.library import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from client.golden_shares import Shared
    from client.provider import Provider

ROOT = Path(__file__).parents[2]
ROWS = {"region": ["EU", "EU", "US"], "team": ["a", "b", "a"], "amount": [1, 2, 4]}

UNREADABLE = {"type_widening": "typeWidening", "vacuum_protocol_check": "vacuumProtocolCheck"}
UNREADABLE["variant_shredded"] = "variantShredding"
"""Tables that no tested reader of folders supports, and the feature that it lacks."""
CLONES = ("clone", "clone_deletion_vectors")
"""Tables with files in other folders, which need other credentials."""
QUICK = ("column_mapping_id", "column_mapping_name", "checkpoint_v2_sidecars", "materialized_partitions")
READABLE = [name for name in names() if name not in {*UNREADABLE, *CLONES, "variant"}]

FolderAccess = tuple[str, dict[str, str]]
"""A table's folder, and the options to read it."""


@pytest.fixture
def recipe(provider: Provider, tmp_path: Path) -> Iterator[str]:
    """Write a table for the page's examples, and return their code."""
    folder = tmp_path / "orders"
    deltalake.write_deltalake(str(folder), pa.table(ROWS), partition_by=["region"])
    admin = provider.admin
    provider.upload(folder, "orders")
    admin.shares.create("sales_share")
    admin.schemas.create("sales_share", "europe")
    path, modes = f"s3://{DATA_BUCKET}/orders", ("url", "dir")
    admin.tables.create("sales_share", "europe", "orders", path, history=True, access_modes=modes)
    admin.grants.create("reader", "sales_share")
    shutil.copy(provider.profile, tmp_path / "alice.share")
    yield "\n".join(code_of("docs/recipients.md"))
    admin.shares.delete("sales_share", force=True)


@pytest.fixture
def open_folder(provider: Provider, shared: Callable[[str], Shared]) -> Iterator[Callable[[str], FolderAccess]]:
    """Return a function that shares a golden table by folder, and requests credentials as its recipient."""
    tables: list[str] = []

    def get(name: str) -> FolderAccess:
        location, table = f"s3://{DATA_BUCKET}/{shared(name).prefix}", f"folder_{name}"
        provider.admin.tables.create(SHARE, SCHEMA, table, location, history=True, access_modes=("dir",))
        tables.append(table)
        path = f"/shares/{SHARE}/schemas/{SCHEMA}/tables/{table}/temporary-table-credentials"
        credentials = provider.recipient("reader").post(path, {}).json["credentials"]
        keys = credentials["awsTempCredentials"]
        return credentials["location"], {
            "AWS_ACCESS_KEY_ID": keys["accessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["secretAccessKey"],
            "AWS_SESSION_TOKEN": keys["sessionToken"],
            "AWS_REGION": credentials["region"],
            "AWS_ENDPOINT_URL": credentials["endpoint"],
            "AWS_ALLOW_HTTP": "true",
        }

    yield get
    for table in tables:
        provider.admin.tables.delete(SHARE, SCHEMA, table)


@pytest.fixture
def warnings_for(shared: Callable[[str], Shared]) -> Callable[[str], str]:
    """Return a function that returns the command's warnings about a golden table's folder."""

    def get(name: str) -> str:
        snapshot = DeltaLog(FolderStore(shared(name).folder)).snapshot()
        return "\n".join(folder_limits(SharedSchema(snapshot.metadata, snapshot.protocol)))

    return get


def code_of(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def read_rows(location: str, options: dict[str, str]) -> pa.Table:
    table = deltalake.DeltaTable(location, storage_options=options)
    rows: pa.Table = pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    return rows


def comparable(rows: pa.Table) -> list[str]:
    """Return rows in a form that is independent of the order of rows and columns."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows.to_pylist())


@pytest.mark.slow
def test_the_examples_of_the_page_read_the_table(recipe: str, tmp_path: Path) -> None:
    output_line = "print(json.dumps([frame.to_dicts(), plain.to_dicts(), totals]))"
    (tmp_path / "recipe.py").write_text(f"{recipe}\n{output_line}\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "recipe.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    output, _, json_line = done.stdout.strip().rpartition("\n")
    assert "sales_share.europe.orders" in output
    frame, scanned, totals = json.loads(json_line)
    expected: list[Any] = [row for row in pa.table(ROWS).to_pylist() if row["region"] == "EU"]
    assert sorted(frame, key=lambda row: str(row["team"])) == expected
    assert sorted(scanned, key=lambda row: str(row["team"])) == expected
    assert totals == [["EU", 3]]


def test_the_page_for_providers_shows_the_same_example() -> None:
    [example] = [code for code in code_of("docs/share.md") if "alice.share" in code]
    assert example == code_of("docs/recipients.md")[0]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in READABLE]
)
def test_deltalake_reads_the_rows_that_spark_reads(
    open_folder: Callable[[str], FolderAccess], shared: Callable[[str], Shared], name: str
) -> None:
    golden = shared(name)
    assert comparable(read_rows(*open_folder(name))) == comparable(golden.rows(golden.golden.versions[-1]))


@pytest.mark.parametrize(("name", "feature"), UNREADABLE.items())
def test_features_that_no_reader_supports_cause_a_warning(
    open_folder: Callable[[str], FolderAccess], warnings_for: Callable[[str], str], name: str, feature: str
) -> None:
    location, options = open_folder(name)
    with pytest.raises(DeltaError, match=r"(?i)unsupported table features"):
        read_rows(location, options)
    with pytest.raises(DeltaProtocolError, match=feature):
        pl.scan_delta(location, storage_options=options).collect()
    assert f"deltalake and polars cannot read {feature}" in warnings_for(name)


def test_mapped_columns_that_read_as_null_cause_a_warning(
    open_folder: Callable[[str], FolderAccess], shared: Callable[[str], Shared], warnings_for: Callable[[str], str]
) -> None:
    location, options = open_folder("column_mapping_id")
    rows = deltalake.DeltaTable(location, storage_options=options).to_pyarrow_table()
    golden = shared("column_mapping_id")
    assert rows.num_rows == golden.rows(golden.golden.versions[-1]).num_rows > 0
    assert {value for row in rows.to_pylist() for value in row.values()} == {None}
    with pytest.raises(DeltaProtocolError, match="column mapping"):
        pl.scan_delta(location, storage_options=options).collect()
    assert "to_pyarrow_table and to_pandas of deltalake silently return nulls" in warnings_for("column_mapping_id")


def test_paths_that_polars_does_not_find_cause_a_warning(
    open_folder: Callable[[str], FolderAccess], warnings_for: Callable[[str], str]
) -> None:
    location, options = open_folder("materialized_partitions")
    with pytest.raises(FileNotFoundError, match="not found"):
        pl.scan_delta(location, storage_options=options).collect()
    assert "values of part may put a space" in warnings_for("materialized_partitions")


def test_a_plain_table_causes_no_warning(warnings_for: Callable[[str], str]) -> None:
    assert warnings_for("plain") == ""
