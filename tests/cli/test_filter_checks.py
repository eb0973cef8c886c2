"""Filters and hidden columns as a provider says them: checked against real logs, and nothing is written that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from delta_tables.handmade import lines, metadata, protocol
from deltaic.catalog import keys
from deltaic.catalog.attributes import marshal, marshal_item
from deltaic.delta.actions import parse_metadata, parse_protocol
from deltaic.errors import InvalidParameter
from deltaic_ops.inspection.shared_schema import SharedSchema, check_hidden

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import boto3
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "narrowed-lake"
ORDERS = "sales.europe.orders"
BY_REGION = "region = current_recipient('region')"


def schema(**columns: Any) -> str:
    """Return a schema; a column is its type, or a type and its metadata."""
    fields = [
        {"name": name, "type": kind[0], "nullable": True, "metadata": kind[1]}
        if isinstance(kind, tuple)
        else {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


COLUMNS = schema(id="long", day="date", region="string", team="string")
PARTED = ("region", "team", "day")
GENERATED = schema(id="long", hint=("string", {"delta.generationExpression": "upper(`REGION`)"}), region="string")
LOGS: dict[str, Any] = {
    "regions": metadata(schema=COLUMNS, partitions=("region",)),
    "by_day": metadata(schema=COLUMNS, partitions=("day",)),
}
ICEBERG = {"delta.enableIcebergCompatV2": "true"}


@pytest.fixture(scope="module")
def put(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Callable[[str, bytes], None]:
    """Return what puts an object into a bucket that has a table of each kind."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)

    def put(key: str, content: bytes) -> None:
        s3.put_object(Bucket=BUCKET, Key=key, Body=content)

    for name, schema_ in LOGS.items():
        put(f"{name}/_delta_log/{0:020d}.json", lines([protocol(), schema_]))
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
def sales(deltaic: Deltaic, admin: CatalogAdmin, orders: str) -> Deltaic:
    """Return the command over a catalog with a share that alice holds, and a table in it."""
    admin.shares.create("sales")
    admin.schemas.create("sales", "europe")
    admin.tables.create("sales", "europe", "orders", orders)
    admin.recipients.create("alice", properties={"region": "EU"})
    admin.recipients.create("bob")
    admin.grants.create("alice", "sales")
    return deltaic


def test_a_table_shows_its_filter_and_hidden_columns(sales: Deltaic, orders: str, tmp_path: Path) -> None:
    (tmp_path / "rows.sql").write_text(f"{BY_REGION}\n  AND year >= 2024\n")
    table = sales.json(
        f"table create sales.europe.mine --location {orders} --partition-filter @rows.sql --hide-columns region,TEAM"
    )
    assert table["partitionFilter"] == f"{BY_REGION}\n  AND year >= 2024"
    assert table["hiddenColumns"] == ["Region", "team"]
    assert sales.json("table show sales.europe.mine").items() >= table.items()
    listing = sales.done("table list sales").splitlines()
    assert f"{BY_REGION}   AND year >= 2024  Region, team" in next(line for line in listing if ".mine" in line)
    output = sales.done("table show sales.europe.mine")
    assert f"partitionFilter  {BY_REGION}" in output
    assert "viewProperties" not in output
    changed = sales.json("table update sales.europe.mine --partition-filter 'year = 2024' --hide-columns year")
    assert changed == {**table, "partitionFilter": "year = 2024", "hiddenColumns": ["year"]}
    updated_table = sales.json("table update sales.europe.mine --no-partition-filter --no-hide-columns --history")
    assert "delta.enableChangeDataFeed" in updated_table.pop("warnings")[0]
    assert updated_table == {**table, "partitionFilter": "", "hiddenColumns": [], "history": True}
    assert "  all  " in next(line for line in sales.done("table list sales").splitlines() if ".mine" in line)


def test_an_invalid_filter_is_refused_and_not_stored(sales: Deltaic, orders: str) -> None:
    before = sales.json("table list sales")
    new, old = f"table create sales.europe.new --location {orders}", f"table update {ORDERS}"
    for line, message in (
        (f"{new} --partition-filter \"land = 'EU'\"", "at character 1: the table has no column land"),
        (f"{old} --partition-filter 'id = 1'", "at character 1: id is not a partition column"),
        (f"{old} --partition-filter \"year = 'EU'\"", "at character 8"),
        (f"{new} --partition-filter 'region ='", "at character 9"),
        (f"{old} --hide-columns region,id", "cannot hide 'id'"),
        (f"{new} --hide-columns region --hide-columns land", "cannot hide 'land'"),
        (f"{old} --access-mode dir --history --hide-columns region", "'url' only"),
        (f"{old} --location s3://{BUCKET}/nowhere --hide-columns region", "nowhere cannot be read"),
        (f"{new} --storage none --hide-columns region", "storage 'none' not found"),
    ):
        refused = sales(line)
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    assert sales.json("table list sales") == before


HIDDEN = [
    pytest.param("land", COLUMNS, PARTED, {}, (), "the columns id, day, region, team", id="no such column"),
    pytest.param("id", COLUMNS, PARTED, {}, (), "in the files", id="a column of the files"),
    pytest.param(
        "team", COLUMNS, ("region",), {}, (), "Only partition columns can be hidden: region", id="another tables"
    ),
    pytest.param("region", COLUMNS, (), {}, (), "can be hidden: none", id="no partitions"),
    pytest.param("A", schema(a="string"), ("a",), {}, (), "all columns", id="all columns"),
    pytest.param("region", GENERATED, ("region",), {}, (), "'hint' is generated from it", id="told by another column"),
    pytest.param("region", COLUMNS, PARTED, {}, ("icebergCompatV1",), "icebergCompatV1", id="once written for Iceberg"),
    pytest.param("region", COLUMNS, PARTED, ICEBERG, (), "icebergCompatV2", id="written for Iceberg"),
    pytest.param("region", COLUMNS, PARTED, {}, ("materializePartitionColumns",), "into the files", id="in the files"),
]


def shared(columns: str, partitions: tuple[str, ...], configuration: dict[str, str], features: tuple[str, ...]) -> Any:
    meta: Any = metadata(configuration, schema=columns, partitions=partitions)["metaData"]
    rules: Any = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}
    return SharedSchema(parse_metadata(meta, "here"), parse_protocol(rules, "here"))


@pytest.mark.parametrize(("name", "columns", "partitions", "configuration", "features", "message"), HIDDEN)
def test_columns_that_files_reveal_cannot_be_hidden(  # noqa: PLR0917 -- what a table is
    name: str,
    columns: str,
    partitions: tuple[str, ...],
    configuration: dict[str, str],
    features: tuple[str, ...],
    message: str,
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        check_hidden([name], shared(columns, partitions, configuration, features))


def test_hidden_columns_are_stored_in_the_tables_spelling() -> None:
    simple = shared(COLUMNS, PARTED, {"delta.enableIcebergCompatV2": "false"}, ("deletionVectors",))
    assert check_hidden(["DAY", "region"], simple) == ("day", "region")
    both = schema(id="long", hint=("string", {"delta.generationExpression": "upper(region)"}), region="string")
    assert check_hidden(["region", "hint"], shared(both, ("region", "hint"), {}, ())) == ("region", "hint")
    regions_only = schema(
        id="long", region2=("string", {"delta.generationExpression": "upper(regions)"}), region="string"
    )
    assert check_hidden(["region"], shared(regions_only, ("region",), {}, ())) == ("region",)


@pytest.mark.usefixtures("put")
def test_a_table_can_move_only_where_its_filter_is_valid(sales: Deltaic) -> None:
    sales.done(f'table update {ORDERS} --partition-filter "{BY_REGION}" --hide-columns team')
    before = sales.json(f"table show {ORDERS} --no-look")
    for folder, message in (("by_day", "region is not a partition column"), ("regions", "cannot hide 'team'")):
        refused = sales(f"table update {ORDERS} --location s3://{BUCKET}/{folder}")
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    assert sales.json(f"table show {ORDERS} --no-look") == before
    del before["recipients"], before["more"]
    moved = sales.json(f"table update {ORDERS} --location s3://{BUCKET}/regions --no-hide-columns")
    assert moved == {**before, "location": f"s3://{BUCKET}/regions", "hiddenColumns": []}


def test_an_unreadable_file_prints_one_line_without_a_traceback(sales: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "bytes.sql").write_bytes(b"\xff\xfe")
    for name, message in (("nothing.sql", "nothing.sql"), ("bytes.sql", "UTF-8")):
        refused = sales(f"table update {ORDERS} --partition-filter @{name}")
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output


def test_the_filter_of_a_grant_applies_to_every_table_of_the_share(sales: Deltaic, orders: str) -> None:
    grant = sales.json("grant create bob sales --partition-filter 'year >= 2024'")
    assert grant["partitionFilter"] == "year >= 2024"
    assert sales.json("grant show bob sales") == grant
    rows = {line.split()[0]: line for line in sales.done("grant list --share sales").splitlines()[1:]}
    assert "year >= 2024" in rows["bob"]
    assert "all that are shared" in rows["alice"]
    changed = sales.json("grant update bob sales --partition-filter \"team IN ('a', 'b')\"")
    assert changed == {**grant, "partitionFilter": "team IN ('a', 'b')"}
    sales.done(f"table create sales.europe.more --location {orders}")
    assert sales.json("grant update bob sales --no-partition-filter")["partitionFilter"] == ""


@pytest.mark.usefixtures("put")
def test_the_filter_of_a_grant_must_be_valid_for_every_table(sales: Deltaic, dynamodb: Any, orders: str) -> None:
    sales.done(f"table create sales.europe.days --location s3://{BUCKET}/by_day")
    before = sales.json("grant list")

    def refused(message: str) -> None:
        for line in ("create bob", "update alice"):
            answer = sales(f"grant {line} sales --partition-filter \"region = 'EU'\"")
            assert (answer.exit_code, message in answer.output) == (1, True), answer.output
        assert sales.json("grant list") == before

    refused("does not match table sales.europe.days: ")
    sales.done(f"table update sales.europe.days --location {orders} --history --access-mode dir")
    refused("sales.europe.days: the table has only access mode 'dir'")
    sales.done(f"table update sales.europe.days --location s3://{BUCKET}/nowhere --access-mode url --unchecked")
    for location in (f"s3://{BUCKET}/nowhere", "s3://no-such-bucket/t"):
        sales.done(f"table update sales.europe.days --location {location} --unchecked")
        refused(f"the filter cannot be checked against table sales.europe.days: {location} cannot be read")
        refused("deltaic table update sales.europe.days --location ..., or deltaic table delete sales.europe.days")
    make_view(sales, dynamodb, "days", ())
    refused("sales.europe.days: the table is a view")


@pytest.mark.usefixtures("put")
def test_a_new_table_must_match_the_filters_of_existing_grants(sales: Deltaic, orders: str) -> None:
    sales.done("grant update alice sales --partition-filter \"team = 'a'\"")
    before = sales.json("table list sales")
    for line in (
        f"table create sales.europe.new --location s3://{BUCKET}/regions",
        f"table create sales.europe.new --location s3://{BUCKET}/nowhere",
        f"table create sales.europe.new --location s3://{BUCKET}/nowhere --unchecked",
        f"table create sales.europe.new --location {orders} --access-mode dir --history",
        f"table update {ORDERS} --location s3://{BUCKET}/regions",
        f"table update {ORDERS} --history --access-mode dir",
    ):
        refused = sales(line)
        expected = "cannot be read" if "nowhere" in line else "grant of 'sales' to 'alice' has the filter team = 'a'"
        assert (refused.exit_code, expected in refused.output) == (1, True), refused.output
    assert sales.json("table list sales") == before
    sales.done(f"table create sales.europe.new --location {orders}/")


def test_a_repeated_property_option_is_a_list(sales: Deltaic) -> None:
    recipient = sales.json("recipient create carol --property regions=EU --property one=1 --property regions=US")
    assert recipient["properties"] == {"regions": ["EU", "US"], "one": "1"}
    assert sales.json("recipient show carol").items() >= recipient.items()
    assert "regions=[EU, US], one=1" in sales.done("recipient list")
    assert "regions=[EU, US], one=1" in sales.done("recipient show carol")
    changed = sales.json("recipient update carol --property one=2 --property one=2 --property 'regions=[\"ü\"]'")
    assert changed["properties"] == {"regions": ["ü"], "one": ["2"]}


def test_a_log_is_read_without_pandas(sales: Deltaic) -> None:
    command = ["-X", "importtime", "-c", "from deltaic_ops.cli import main; main()", "table", "update", ORDERS]
    done = subprocess.run(
        [sys.executable, *command, "--partition-filter", "year = 2024"],
        env={**os.environ, **sales.variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "deltaic.delta.log" in done.stderr
    assert "pandas.core" not in done.stderr


def test_a_new_filter_names_recipients_without_its_property(sales: Deltaic, orders: str) -> None:
    assert "warning" not in sales.done(f'table update {ORDERS} --partition-filter "{BY_REGION}"')
    sales.done("grant create bob sales")
    line = f"'bob' sees no rows of {ORDERS}: missing property region"
    changed = sales.json(f"table update {ORDERS} --partition-filter \"{BY_REGION} AND team = 'a'\"")
    assert changed["warnings"] == [line]
    assert "warnings" not in sales.json(f"table update {ORDERS} --checkpoint")
    command = (
        f"table create sales.europe.more --location {orders} --partition-filter \"team = current_recipient('team')\""
    )
    assert [line.split()[0] for line in sales.json(command)["warnings"]] == ["'alice'", "'bob'"]


def test_recipients_without_a_property_cause_a_warning(sales: Deltaic, dynamodb: Any) -> None:
    sales.done(f'table update {ORDERS} --partition-filter "{BY_REGION}"')
    line = f"'bob' sees no rows of {ORDERS}: missing property region"
    assert line in sales.done("grant create bob sales")
    assert sales.json("recipient update bob --comment x")["warnings"] == [line]
    assert "warnings" not in sales.json("recipient update bob --property region=EU")
    assert sales.json("recipient update bob --property 'region=[]'")["warnings"] == [line]
    both = sales.json("grant update bob sales --partition-filter \"team = current_recipient('team')\"")["warnings"]
    assert both == [f"'bob' sees no rows of {ORDERS}: missing properties region, team"]
    assert "sees no rows" not in sales.done("grant update alice sales --no-partition-filter")
    sales.done(f"table update {ORDERS} --no-partition-filter")
    make_view(sales, dynamodb, "orders", ("level",))
    assert sales.json("recipient update alice --comment x")["warnings"] == [
        f"'alice' sees no rows of {ORDERS}: missing property level"
    ]


def make_view(deltaic: Deltaic, dynamodb: Any, name: str, properties: tuple[str, ...]) -> None:
    """Say of a table's entry that it is a view over recipients' properties."""
    key = keys.asset("table", "sales", "europe", name)
    dynamodb.update_item(
        TableName=deltaic.variables["CATALOG_TABLE"],
        Key=marshal_item(key._asdict()),
        UpdateExpression="SET view_properties = :properties",
        ExpressionAttributeValues={":properties": marshal(properties)},
    )
