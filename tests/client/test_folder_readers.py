"""Who reads a table's folder with its credentials: the recipes of the page as they stand, and what a reader misses."""

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
from deltaic_ops.inspection.shared_schema import SharedSchema, missed_by_folder
from deltaic_ops.local.resources import DATA_BUCKET
from deltalake.exceptions import DeltaError, DeltaProtocolError
from golden.library import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from client.golden_shares import Shared
    from client.provider import Provider

ROOT = Path(__file__).parents[2]
ROWS = {"region": ["EU", "EU", "US"], "team": ["a", "b", "a"], "amount": [1, 2, 4]}

UNREAD = {"type_widening": "typeWidening", "vacuum_protocol_check": "vacuumProtocolCheck"}
UNREAD["variant_shredded"] = "variantShredding"
"""Tables that no reader of folders at hand can read, and the feature why."""
ELSEWHERE = ("clone", "clone_deletion_vectors")
"""Files of other folders want credentials of their own."""
TRAPS = ("column_mapping_id", "column_mapping_name", "checkpoint_v2_sidecars", "materialized_partitions")
READ = [name for name in names() if name not in {*UNREAD, *ELSEWHERE, "variant"}]

Opened = tuple[str, dict[str, str]]
"""A table's folder, and how it is read."""


@pytest.fixture
def recipe(provider: Provider, tmp_path: Path) -> Iterator[str]:
    """Return the page's code, with what it reads in place."""
    folder = tmp_path / "orders"
    deltalake.write_deltalake(str(folder), pa.table(ROWS), partition_by=["region"])
    admin = provider.admin
    provider.upload(folder, "orders")
    admin.shares.create("sales_share")
    admin.schemas.create("sales_share", "europe")
    place, modes = f"s3://{DATA_BUCKET}/orders", ("url", "dir")
    admin.tables.create("sales_share", "europe", "orders", place, history=True, access_modes=modes)
    admin.grants.create("reader", "sales_share")
    shutil.copy(provider.profile, tmp_path / "alice.share")
    yield "\n".join(code_of("docs/recipients.md"))
    admin.shares.delete("sales_share", force=True)


@pytest.fixture
def opened(provider: Provider, shared: Callable[[str], Shared]) -> Iterator[Callable[[str], Opened]]:
    """Return a function that shares a golden table by its folder, and asks for credentials as its recipient."""
    made: list[str] = []

    def get(name: str) -> Opened:
        location, table = f"s3://{DATA_BUCKET}/{shared(name).prefix}", f"folder_{name}"
        provider.admin.tables.create(SHARE, SCHEMA, table, location, history=True, access_modes=("dir",))
        made.append(table)
        place = f"/shares/{SHARE}/schemas/{SCHEMA}/tables/{table}/temporary-table-credentials"
        given = provider.recipient("reader").post(place, {}).json["credentials"]
        keys = given["awsTempCredentials"]
        return given["location"], {
            "AWS_ACCESS_KEY_ID": keys["accessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["secretAccessKey"],
            "AWS_SESSION_TOKEN": keys["sessionToken"],
            "AWS_REGION": given["region"],
            "AWS_ENDPOINT_URL": given["endpoint"],
            "AWS_ALLOW_HTTP": "true",
        }

    yield get
    for table in made:
        provider.admin.tables.delete(SHARE, SCHEMA, table)


@pytest.fixture
def warned(shared: Callable[[str], Shared]) -> Callable[[str], str]:
    """Return a function that says what the command says of a golden table's folder."""

    def get(name: str) -> str:
        snapshot = DeltaLog(FolderStore(shared(name).folder)).snapshot()
        return "\n".join(missed_by_folder(SharedSchema(snapshot.metadata, snapshot.protocol)))

    return get


def code_of(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def queried(location: str, options: dict[str, str]) -> pa.Table:
    table = deltalake.DeltaTable(location, storage_options=options)
    found: pa.Table = pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    return found


def plain(rows: pa.Table) -> list[str]:
    """Return rows so that they can be compared, whatever their order and that of their columns."""
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows.to_pylist())


def test_the_recipes_of_the_page_read_the_table(recipe: str, tmp_path: Path) -> None:
    shown = "print(json.dumps([frame.to_dicts(), plain.to_dicts(), totals]))"
    (tmp_path / "recipe.py").write_text(f"{recipe}\n{shown}\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "recipe.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed, _, last = done.stdout.strip().rpartition("\n")
    assert "sales_share.europe.orders" in listed
    frame, scanned, totals = json.loads(last)
    expected: list[Any] = [row for row in pa.table(ROWS).to_pylist() if row["region"] == "EU"]
    assert sorted(frame, key=lambda row: str(row["team"])) == expected
    assert sorted(scanned, key=lambda row: str(row["team"])) == expected
    assert totals == [["EU", 3]]


@pytest.mark.parametrize("page", ["README.md", "docs/share.md"])
def test_other_pages_read_it_as_that_page_does(page: str) -> None:
    [reading] = [code for code in code_of(page) if "alice.share" in code]
    assert reading == code_of("docs/recipients.md")[0]


@pytest.mark.parametrize(
    "name", [name if name in TRAPS else pytest.param(name, marks=pytest.mark.slow) for name in READ]
)
def test_the_recipes_way_reads_what_spark_reads(
    opened: Callable[[str], Opened], shared: Callable[[str], Shared], name: str
) -> None:
    golden = shared(name)
    assert plain(queried(*opened(name))) == plain(golden.rows(golden.golden.versions[-1]))


@pytest.mark.parametrize(("name", "feature"), UNREAD.items())
def test_what_nobody_reads_by_folder_is_warned_of(
    opened: Callable[[str], Opened], warned: Callable[[str], str], name: str, feature: str
) -> None:
    location, options = opened(name)
    with pytest.raises(DeltaError, match=r"(?i)unsupported table features"):
        queried(location, options)
    with pytest.raises(DeltaProtocolError, match=feature):
        pl.scan_delta(location, storage_options=options).collect()
    assert f"deltalake and polars cannot read {feature}" in warned(name)


def test_mapped_columns_are_nulls_to_some_readers_and_warned_of(
    opened: Callable[[str], Opened], shared: Callable[[str], Shared], warned: Callable[[str], str]
) -> None:
    location, options = opened("column_mapping_id")
    found = deltalake.DeltaTable(location, storage_options=options).to_pyarrow_table()
    golden = shared("column_mapping_id")
    assert found.num_rows == golden.rows(golden.golden.versions[-1]).num_rows > 0
    assert {value for row in found.to_pylist() for value in row.values()} == {None}
    with pytest.raises(DeltaProtocolError, match="column mapping"):
        pl.scan_delta(location, storage_options=options).collect()
    assert "to_pyarrow_table and to_pandas of deltalake silently return nulls" in warned("column_mapping_id")


def test_paths_that_polars_does_not_find_are_warned_of(
    opened: Callable[[str], Opened], warned: Callable[[str], str]
) -> None:
    location, options = opened("materialized_partitions")
    with pytest.raises(FileNotFoundError, match="not found"):
        pl.scan_delta(location, storage_options=options).collect()
    assert "values of part may put a space" in warned("materialized_partitions")


def test_of_a_plain_table_nothing_is_warned(warned: Callable[[str], str]) -> None:
    assert warned("plain") == ""
