"""Filters and hidden columns as a provider says them: checked against real logs, and nothing is written that fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from delta_tables.handmade import lines, metadata, protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import boto3
    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "narrowed-lake"
ORDERS = "sales.europe.orders"
BY_REGION = "region = current_recipient('region')"


def schema(**columns: Any) -> str:
    """Return a schema; a column is its type, or a type and its metadata."""
    fields = [
        {"name": name, "type": said[0], "nullable": True, "metadata": said[1]}
        if isinstance(said, tuple)
        else {"name": name, "type": said, "nullable": True, "metadata": {}}
        for name, said in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


PLAIN = schema(id="long", day="date", region="string", team="string")
PARTED = ("region", "team", "day")
GENERATED = schema(id="long", hint=("string", {"delta.generationExpression": "upper(`REGION`)"}), region="string")
LOGS: dict[str, list[Any]] = {
    "regions": [protocol(), metadata(schema=PLAIN, partitions=("region",))],
    "by_day": [protocol(), metadata(schema=PLAIN, partitions=("day",))],
    "only": [protocol(), metadata(schema=schema(region="string", team="string"), partitions=("region", "team"))],
    "generated": [protocol(), metadata(schema=GENERATED, partitions=("region",))],
    "materialized": [
        protocol(3, 7, "materializePartitionColumns"),
        metadata(schema=PLAIN, partitions=PARTED),
    ],
    "iceberg": [
        protocol(),
        metadata({"delta.enableIcebergCompatV2": "true"}, schema=PLAIN, partitions=PARTED),
    ],
}


@pytest.fixture(scope="module")
def put(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Callable[[str, bytes], None]:
    """Return what puts an object into a bucket that has a table of each kind."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)

    def put(key: str, content: bytes) -> None:
        s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    for name, actions in LOGS.items():
        # `materialized` asks nothing of readers, so it stands among what writers must know alone.
        if name == "materialized":
            actions[0]["protocol"] |= {"minReaderVersion": 1}
            del actions[0]["protocol"]["readerFeatures"]
        put(f"{name}/_delta_log/{0:020d}.json", lines(actions))
    return put


@pytest.fixture(scope="module")
def orders(put: Callable[[str, bytes], None], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where a table lies that delta-rs wrote."""
    folder: Path = tmp_path_factory.mktemp("orders")
    rows = {"id": [1, 2], "Region": ["EU", "US"], "team": ["a", "b"], "year": pa.array([2024, 2025], pa.int32())}
    deltalake.write_deltalake(str(folder), pa.table(rows), partition_by=["Region", "team", "year"])
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            put(f"orders/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"s3://{BUCKET}/orders"


@pytest.fixture
def sales(deltaic: Deltaic, orders: str) -> Deltaic:
    """Return the command over a catalog with a share that alice holds, and a table in it."""
    for line in (
        "share create sales",
        "schema create sales.europe",
        f"table create {ORDERS} --location {orders}",
        "recipient create alice --property region=EU",
        "grant create alice sales",
    ):
        deltaic.done(line)
    return deltaic


def test_a_table_says_which_rows_and_columns_it_shares(sales: Deltaic, orders: str, tmp_path: Path) -> None:
    (tmp_path / "rows.sql").write_text(f"{BY_REGION}\n  AND year >= 2024\n")
    made = sales.json(
        f"table create sales.europe.mine --location {orders} --partition-filter @rows.sql --hide-columns region,TEAM"
    )
    assert made["partitionFilter"] == f"{BY_REGION}\n  AND year >= 2024"
    assert made["hiddenColumns"] == ["Region", "team"]
    assert sales.json("table show sales.europe.mine") == made
    listed = sales.done("table list sales").splitlines()
    assert f"{BY_REGION}   AND year >= 2024  Region, team" in next(line for line in listed if ".mine" in line)
    shown = sales.done("table show sales.europe.mine")
    assert f"partitionFilter   {BY_REGION}" in shown
    assert "viewProperties" not in shown
    changed = sales.json("table update sales.europe.mine --partition-filter 'year = 2024' --hide-columns year")
    assert changed == {**made, "partitionFilter": "year = 2024", "hiddenColumns": ["year"]}
    opened = sales.json("table update sales.europe.mine --no-partition-filter --no-hide-columns --history")
    assert opened == {**made, "partitionFilter": "", "hiddenColumns": [], "history": True}
    assert "  all  " in next(line for line in sales.done("table list sales").splitlines() if ".mine" in line)


REFUSED = [
    pytest.param("orders", "--partition-filter \"land = 'EU'\"", "no column land", id="no such column"),
    pytest.param("orders", "--partition-filter 'id = 1'", "id is not a partition column", id="not a partition column"),
    pytest.param("orders", "--partition-filter \"year = 'EU'\"", "character", id="another type"),
    pytest.param("orders", "--partition-filter 'region ='", "at character 9", id="no filter"),
    pytest.param("orders", "--hide-columns land", "the columns id, Region, team, year", id="no such column to hide"),
    pytest.param("orders", "--hide-columns region,id", "in the files", id="a column of the files"),
    pytest.param("orders", "--hide-columns ''", "empty", id="a column without a name"),
    pytest.param("only", "--hide-columns region,team", "all columns", id="all columns"),
    pytest.param("generated", "--hide-columns region", "'hint' is generated from it", id="told by another column"),
    pytest.param("materialized", "--hide-columns region", "materializePartitionColumns", id="values in the files"),
    pytest.param("iceberg", "--hide-columns region", "icebergCompatV2", id="values in the files for Iceberg"),
    pytest.param("nowhere", f'--partition-filter "{BY_REGION}"', "cannot be read", id="no table"),
    pytest.param("orders", "--access-mode dir --history --hide-columns region", "'url' alone", id="directory access"),
]


@pytest.mark.parametrize(("table", "options", "message"), REFUSED)
def test_what_does_not_fit_the_table_is_refused_and_not_written(
    sales: Deltaic, table: str, options: str, message: str
) -> None:
    location = f"s3://{BUCKET}/{table}"
    refused = sales(f"table create sales.europe.new --location {location} {options}")
    assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    before = sales.json(f"table update {ORDERS} --location {location}")
    refused = sales(f"table update {ORDERS} {options}")
    assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    assert sales.json("table list sales") == [before]


@pytest.mark.usefixtures("put")
def test_a_table_that_moves_takes_its_filter_only_where_it_fits(sales: Deltaic) -> None:
    sales.done(f'table update {ORDERS} --partition-filter "{BY_REGION}" --hide-columns team')
    before = sales.json(f"table show {ORDERS}")
    for folder, message in (("by_day", "region is not a partition column"), ("regions", "'team' cannot be hidden")):
        refused = sales(f"table update {ORDERS} --location s3://{BUCKET}/{folder}")
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    assert sales.json(f"table show {ORDERS}") == before
    moved = sales.json(f"table update {ORDERS} --location s3://{BUCKET}/regions --no-hide-columns")
    assert moved == {**before, "location": f"s3://{BUCKET}/regions", "hiddenColumns": []}


def test_a_file_that_is_none_is_a_line_and_not_a_stack_trace(sales: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "bytes.sql").write_bytes(b"\xff\xfe")
    for name, message in (("nothing.sql", "nothing.sql"), ("bytes.sql", "UTF-8")):
        refused = sales(f"table update {ORDERS} --partition-filter @{name}")
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output


@pytest.mark.parametrize(
    "line",
    [
        f"table update {ORDERS} --partition-filter 'year = 1' --no-partition-filter",
        f"table update {ORDERS} --hide-columns year --no-hide-columns",
        "grant update alice sales --partition-filter 'year = 1' --no-partition-filter",
        "grant update alice sales",
    ],
)
def test_half_a_wish_is_not_understood(sales: Deltaic, line: str) -> None:
    assert sales(line).exit_code == 2


def test_a_grant_narrows_every_table_of_the_share(sales: Deltaic, orders: str) -> None:
    sales.done("recipient create bob")
    made = sales.json("grant create bob sales --partition-filter 'year >= 2024'")
    assert made["partitionFilter"] == "year >= 2024"
    assert sales.json("grant show bob sales") == made
    rows = {line.split()[0]: line for line in sales.done("grant list --share sales").splitlines()[1:]}
    assert "year >= 2024" in rows["bob"]
    assert "all that are shared" in rows["alice"]
    changed = sales.json("grant update bob sales --partition-filter \"team IN ('a', 'b')\"")
    assert changed == {**made, "partitionFilter": "team IN ('a', 'b')"}
    sales.done(f"table create sales.europe.more --location {orders}")
    assert sales.json("grant update bob sales --no-partition-filter")["partitionFilter"] == ""


@pytest.mark.usefixtures("put")
def test_a_grants_filter_fits_every_table_or_is_refused(sales: Deltaic, orders: str) -> None:
    sales.done("recipient create bob")
    sales.done(f"table create sales.europe.days --location s3://{BUCKET}/by_day")
    before = sales.json("grant list")

    def refused(message: str) -> None:
        for line in ("create bob", "update alice"):
            answer = sales(f"grant {line} sales --partition-filter \"region = 'EU'\"")
            assert (answer.exit_code, message in answer.output) == (1, True), answer.output
        assert sales.json("grant list") == before

    refused("does not fit sales.europe.days: ")
    sales.done(f"table update sales.europe.days --location {orders} --history --access-mode dir")
    refused("sales.europe.days: it is shared by access mode 'dir' alone")
    sales.done(f"table update sales.europe.days --location s3://{BUCKET}/nowhere --access-mode url")
    refused(f"s3://{BUCKET}/nowhere cannot be read")


@pytest.mark.usefixtures("put")
def test_a_table_that_comes_into_a_narrowed_share_fits_its_grants(sales: Deltaic, orders: str) -> None:
    sales.done("grant update alice sales --partition-filter \"team = 'a'\"")
    before = sales.json("table list sales")
    for line in (
        f"table create sales.europe.new --location s3://{BUCKET}/regions",
        f"table create sales.europe.new --location s3://{BUCKET}/nowhere",
        f"table create sales.europe.new --location {orders} --access-mode dir --history",
        f"table update {ORDERS} --location s3://{BUCKET}/regions",
        f"table update {ORDERS} --history --access-mode dir",
    ):
        refused = sales(line)
        expected = "cannot be read" if "nowhere" in line else "'alice' holds 'sales' with the filter team = 'a'"
        assert (refused.exit_code, expected in refused.output) == (1, True), refused.output
    assert sales.json("table list sales") == before
    sales.done(f"table create sales.europe.new --location {orders}/")


def test_a_property_given_more_than_once_is_a_list(sales: Deltaic) -> None:
    made = sales.json("recipient create bob --property regions=EU --property one=1 --property regions=US")
    assert made["properties"] == {"regions": ["EU", "US"], "one": "1"}
    assert sales.json("recipient show bob") == made
    assert "regions=[EU, US], one=1" in sales.done("recipient list")
    assert "regions=[EU, US], one=1" in sales.done("recipient show bob")
    changed = sales.json("recipient update bob --property one=2 --property one=2 --property 'regions=[\"ü\"]'")
    assert changed["properties"] == {"regions": ["ü"], "one": ["2"]}


def test_who_lacks_a_property_is_warned_of(sales: Deltaic) -> None:
    sales.done(f'table update {ORDERS} --partition-filter "{BY_REGION}"')
    sales.done("recipient create bob")
    line = f"'bob' sees no rows of {ORDERS}: it lacks the property region"
    assert line in sales.done("grant create bob sales")
    assert sales.json("recipient update bob --comment x")["warnings"] == [line]
    assert "warnings" not in sales.json("recipient update bob --property region=EU")
    assert sales.json("recipient update bob --property 'region=[]'")["warnings"] == [line]
    both = sales.json("grant update bob sales --partition-filter \"team = current_recipient('team')\"")["warnings"]
    assert both == [f"'bob' sees no rows of {ORDERS}: it lacks the properties region, team"]
    assert "sees no rows" not in sales.done("grant update alice sales --no-partition-filter")
