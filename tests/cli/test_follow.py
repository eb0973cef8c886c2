"""A schema follows a folder or a Glue database: tables are added, hidden, listed again and excluded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from delta_tables.handmade import lines, metadata, protocol
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    import boto3
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic_ops.local.embedded import EmbeddedAws

pytestmark = pytest.mark.slow

GOOD = [protocol(), metadata(partitions=())]
PARTED = [protocol(), metadata(partitions=("p",))]


class Lake:
    """A folder in a bucket, and tables in it."""

    def __init__(self, s3: Any, name: str) -> None:
        self.s3 = s3
        self.bucket = name
        self.folder = f"s3://{name}/sales"

    def commit(self, table: str, actions: Any = GOOD, version: int = 0, folder: str = "sales") -> None:
        key = f"{folder}/{table}/_delta_log/{version:020d}.json"
        body = actions if isinstance(actions, bytes) else lines(actions)
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def remove(self, table: str, version: int = 0) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=f"sales/{table}/_delta_log/{version:020d}.json")


@pytest.fixture
def lake(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Lake:
    """Return a bucket with two tables and things that are none."""
    lake_ = Lake(aws_session.client("s3", endpoint_url=embedded_aws.endpoint), f"follow-{uuid4().hex}")
    lake_.s3.create_bucket(Bucket=lake_.bucket)
    lake_.commit("orders")
    lake_.commit("Net Returns.v2")
    lake_.s3.put_object(Bucket=lake_.bucket, Key="sales/notes/readme.txt", Body=b"no table")
    lake_.s3.put_object(Bucket=lake_.bucket, Key="sales/top.csv", Body=b"no folder")
    lake_.commit("deeper/down")
    return lake_


@pytest.fixture
def read_tables(deltaic: Deltaic, admin: CatalogAdmin, dynamodb: Any) -> Callable[[], list[str]]:
    """Return a function that lists the tables of the share that a recipient sees, in both listings and by name."""
    admin.shares.create("sales")
    alice = admin.recipients.create("alice")
    admin.grants.create("alice", "sales")
    reader = CatalogReader(deltaic.variables["CATALOG_TABLE"], Dynamo(lambda: dynamodb))

    def read() -> list[str]:
        # One entry per page, so that hidden tables are between pages too.
        tables: list[Any] = []
        while page := reader.list_tables(alice.id, "sales", None, tables[-1].key_in_share if tables else None, 1):
            tables += page
        schemas = reader.list_schemas(alice.id, "sales", None, 100)
        inner = [table for each in schemas for table in reader.list_tables(alice.id, "sales", each.name, None, 2)]
        assert {table.name for table in inner} <= {table.name for table in tables}
        for schema in schemas:
            for entry in admin.tables.list("sales", schema.name):
                if entry.name not in {table.name for table in tables}:
                    with pytest.raises(NotFound, match="does not exist"):
                        reader.get_table(alice.id, "sales", schema.name, entry.name)
        return [table.name for table in tables]

    return read


def actions_of(outcomes: Any) -> dict[str, str]:
    return {outcome["table"]: outcome["did"] for outcome in outcomes}


def test_new_tables_of_a_followed_folder_are_shared(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]], admin: CatalogAdmin
) -> None:
    done = deltaic.done(f"share follow sales --folder {lake.folder}/")
    assert f"sales.sales follows {lake.folder}" in done
    assert read_tables() == []
    tried = deltaic.json("share follow sales --dry-run")
    assert actions_of(tried) == {"orders": "added", "net_returns_v2": "added"}
    assert (read_tables(), admin.follows.get("sales", "sales").looked_at) == ([], None)
    assert deltaic.json("share follow sales --now") == tried
    assert read_tables() == ["net_returns_v2", "orders"]
    entry = deltaic.json("table show sales.sales.net_returns_v2")
    assert (entry["location"], entry["followed"]) == (f"{lake.folder}/Net Returns.v2", True)
    assert "no changes" in deltaic.done("share follow sales --now")
    lake.commit("more")
    output = deltaic.done("share follow sales --now")
    assert "added" in output
    assert read_tables() == ["more", "net_returns_v2", "orders"]
    [follow] = deltaic.json("share show sales")["follows"]
    assert (follow["source"], follow["came"]["shared"], follow["came"]["added"]) == (lake.folder, 3, 1)
    assert lake.folder in deltaic.done("share show sales")


def test_names_have_only_letters_digits_and_underscores_and_patterns_match_folders_too(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]]
) -> None:
    for name in ("Bo-x (€)", "größe", "tmp-x"):
        lake.commit(name)
    follow = f"share follow sales --folder {lake.folder} --exclude 'tmp-*' --exclude orders"
    output = deltaic.done(f"{follow} --now")
    assert {line.split()[0] for line in output.splitlines() if lake.folder in line} == {
        "bo_x____", "größe", "net_returns_v2",
    }  # fmt: skip
    assert "Bo-x (€)" in output
    assert read_tables() == ["bo_x____", "größe", "net_returns_v2"]
    deltaic.done("share follow sales --exclude 'bo-x*' --now")
    assert read_tables() == ["größe", "net_returns_v2", "orders", "tmp_x"]


def test_without_a_schema_the_one_that_follows_the_source_is_meant(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]]
) -> None:
    deltaic.done(f"share follow sales --folder {lake.folder} --schema other")
    deltaic.done(f"share follow sales --folder {lake.folder}/ --now")
    assert read_tables() == ["net_returns_v2", "orders"]
    assert [schema["name"] for schema in deltaic.json("schema list sales")] == ["other"]


def test_a_folder_of_tables_is_not_shared_as_a_table(deltaic: Deltaic, lake: Lake, admin: CatalogAdmin) -> None:
    admin.shares.create("sales")
    admin.schemas.create("sales", "s")
    refused = deltaic(f"table create sales.s.all --location {lake.folder}")
    assert "is no Delta table, but a folder of tables (Net Returns.v2, orders): " in refused.stderr
    assert f"deltaic share follow sales --folder {lake.folder}" in refused.stderr
    assert deltaic.json("table list sales") == []


def test_a_broken_table_is_hidden_and_listed_again_with_its_id(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]], admin: CatalogAdmin
) -> None:
    deltaic.done(f"share follow sales --folder {lake.folder} --schema s --now")
    before = admin.tables.get("sales", "s", "orders")
    admin.tables.update("sales", "s", "orders", history=True)
    lake.commit("orders", b"{broken", 1)
    lake.remove("Net Returns.v2")
    outcomes = deltaic.json("share follow sales --now")
    assert actions_of(outcomes) == {"orders": "hidden", "net_returns_v2": "hidden"}
    assert read_tables() == []
    assert "no: " in deltaic.done("table list sales")
    findings = {finding["check"]: finding for finding in json.loads(deltaic("doctor --json").stdout)}
    assert "recipients do not see it: " in findings["lists sales.s.orders"]["message"]
    assert "no Delta log" in findings["lists sales.s.net_returns_v2"]["message"]
    assert not [check for check in findings if check.startswith("reads the log of")]
    assert deltaic.json("share follow sales --now") == []
    lake.remove("orders", 1)
    lake.commit("Net Returns.v2")
    assert actions_of(deltaic.json("share follow sales --now")) == {"orders": "back", "net_returns_v2": "back"}
    after = admin.tables.get("sales", "s", "orders")
    assert (after.id, after.history, after.unlisted) == (before.id, True, "")
    assert read_tables() == ["net_returns_v2", "orders"]


def test_excluded_tables_are_not_added_and_existing_ones_are_hidden(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]]
) -> None:
    deltaic.done(f"share follow sales --folder {lake.folder} --exclude 'NET_*' --now")
    assert read_tables() == ["orders"]
    deltaic.done("share follow sales --exclude 'ord*'")
    outcomes = deltaic.json("share follow sales --now")
    assert actions_of(outcomes) == {"orders": "hidden", "net_returns_v2": "added"}
    assert read_tables() == ["net_returns_v2"]
    assert actions_of(deltaic.json("share follow sales --no-exclude --now")) == {"orders": "back"}


@pytest.mark.usefixtures("read_tables")
def test_following_does_not_change_the_providers_own_tables(deltaic: Deltaic, lake: Lake, admin: CatalogAdmin) -> None:
    admin.schemas.create("sales", "sales")
    lake.commit("mine", folder="elsewhere")
    admin.tables.create("sales", "sales", "orders", f"s3://{lake.bucket}/elsewhere/mine")
    admin.tables.create("sales", "sales", "net_returns_v2", f"{lake.folder}/Net Returns.v2/", history=True)
    mine = list(admin.tables.list("sales"))
    [outcome] = deltaic.json(f"share follow sales --folder {lake.folder} --exclude 'tmp_*' --now")
    assert (outcome["table"], outcome["did"]) == ("orders", "refused")
    assert outcome["why"] == f"the name is already used by the table in s3://{lake.bucket}/elsewhere/mine"
    lake.remove("Net Returns.v2")
    assert actions_of(deltaic.json("share follow sales --now")) == {"orders": "refused"}
    assert list(admin.tables.list("sales")) == mine
    findings = {finding["check"]: finding for finding in json.loads(deltaic("doctor --json").stdout)}
    assert "the name is already used" in findings["shares sales.sales.orders"]["message"]
    # What was excluded before stays so.
    assert "--exclude 'tmp_*' --exclude orders" in findings["shares sales.sales.orders"]["remedy"]


def test_duplicate_names_and_broken_tables_are_reported(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]]
) -> None:
    lake.commit("ORDERS")
    lake.commit("new", b"{broken")
    lake.commit("x" * 300)
    outcomes = deltaic.json(f"share follow sales --folder {lake.folder} --now")
    assert sorted(outcome["did"] for outcome in outcomes) == ["added", "added", "refused", "refused", "refused"]
    assert read_tables() == ["net_returns_v2", "orders"]
    assert [
        outcome["location"] for outcome in outcomes if outcome["did"] == "added" and outcome["table"] == "orders"
    ] == [f"{lake.folder}/ORDERS"]
    again = {outcome["table"]: outcome["why"] for outcome in deltaic.json("share follow sales --now")}
    assert again["orders"] == f"another table of the source has the same name: {lake.folder}/ORDERS"
    remedies = {outcome["check"]: outcome["remedy"] for outcome in json.loads(deltaic("doctor --json").stdout)}
    assert "--exclude" not in remedies["shares sales.sales.orders"], "which would hide both"


@pytest.mark.usefixtures("read_tables")
def test_a_table_that_does_not_match_a_grants_filter_is_refused_and_stays_hidden(
    deltaic: Deltaic, lake: Lake, admin: CatalogAdmin
) -> None:
    lake.commit("parted", PARTED)
    admin.grants.update("alice", "sales", partition_filter="p = 'a'")
    outcomes = {
        outcome["table"]: outcome for outcome in deltaic.json(f"share follow sales --folder {lake.folder} --now")
    }
    assert {name: outcome["did"] for name, outcome in outcomes.items()} == {
        "orders": "refused", "net_returns_v2": "refused", "parted": "added",
    }  # fmt: skip
    assert "a grant of 'sales' has a filter that is invalid for this table" in outcomes["orders"]["why"]
    lake.remove("parted")
    deltaic.done("share follow sales --now")
    lake.commit("parted", GOOD)
    again = {outcome["table"]: outcome for outcome in deltaic.json("share follow sales --now")}
    assert (again["parted"]["did"], "is invalid for this table" in again["parted"]["why"]) == ("hidden", True)


def test_a_table_that_is_filtered_elsewhere_is_not_shared_unfiltered(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]], admin: CatalogAdmin
) -> None:
    lake.commit("parted", PARTED)
    lake.commit("by_recipient")
    admin.shares.create("narrow")
    admin.schemas.create("narrow", "s")
    admin.tables.create("narrow", "s", "t", f"{lake.folder}/parted", partition_filter="p = 'a'")
    admin.tables.create("narrow", "s", "source", f"{lake.folder}/orders")
    location = f"{lake.folder}/by_recipient"
    admin.views.create("narrow", "s", "v", location, source="narrow.s.source", sql="SELECT 1", properties=[])
    outcomes = {
        outcome["table"]: outcome for outcome in deltaic.json(f"share follow sales --folder {lake.folder} --now")
    }
    assert [outcomes[name]["did"] for name in ("parted", "by_recipient")] == ["refused", "refused"]
    assert "'narrow.s.v' already shares a part of this table" in outcomes["by_recipient"]["why"]
    assert read_tables() == ["net_returns_v2", "orders"]
    # A filter of the operator's own on a table that came by itself does not keep that from coming back.
    admin.tables.update("sales", "sales", "orders", partition_filter="p = 'a'")
    lake.remove("orders")
    deltaic.done("share follow sales --now")
    lake.commit("orders", PARTED)
    assert actions_of(deltaic.json("share follow sales --now"))["orders"] == "back"


def test_unfollowing_keeps_the_shared_tables(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]], admin: CatalogAdmin
) -> None:
    deltaic.done(f"share follow sales --folder {lake.folder} --now")
    lake.remove("orders")
    deltaic.done("share follow sales --now")
    assert "follows" in deltaic.done("share follow sales --off")
    [table] = admin.tables.list("sales")
    assert (table.name, table.followed) == ("net_returns_v2", False)
    assert read_tables() == ["net_returns_v2"]
    assert deltaic("share follow sales --off").exit_code == 1
    deltaic.done("table delete sales.sales.net_returns_v2")
    deltaic.done("schema delete sales.sales")


def test_a_schema_with_a_follow_is_deleted_only_with_force(
    deltaic: Deltaic, read_tables: Callable[[], list[str]], admin: CatalogAdmin
) -> None:
    admin.storages.create("other", region="eu-west-1")
    admin.schemas.create("sales", "s")
    admin.follows.put("sales", "s", "s3://elsewhere/x", storage="other")
    assert "1 table(s) or other entries" in deltaic("schema delete sales.s").stderr
    deltaic.done("schema delete sales.s --force")
    assert read_tables() == []
    assert list(admin.follows.list("sales")) == []
    admin.storages.delete("other")


@pytest.fixture
def glue(aws_session: boto3.Session, embedded_aws: EmbeddedAws, lake: Lake) -> Any:
    """Return Glue, with a database that has tables of Spark's, Athena's and of others."""
    client = aws_session.client("glue", endpoint_url=embedded_aws.endpoint)
    client.create_database(DatabaseInput={"Name": lake.bucket})

    def create_table(name: str, parameters: dict[str, str], location: str, path: str = "") -> None:
        stored: dict[str, Any] = {"Location": location}
        if path:
            stored["SerdeInfo"] = {"Parameters": {"path": path}}
        table = {"Name": name, "Parameters": parameters, "StorageDescriptor": stored}
        client.create_table(DatabaseName=lake.bucket, TableInput=table)

    table_location = f"{lake.folder}/orders"
    create_table("of_spark", {"spark.sql.sources.provider": "delta"}, "s3://spark/x-__PLACEHOLDER__", table_location)
    create_table("of_athena", {"table_type": "DELTA"}, f"{lake.folder}/Net Returns.v2/")
    create_table("of_hive", {"classification": "parquet"}, table_location)
    create_table("of_nobody", {"table_type": "DELTA"}, f"{lake.folder}/notes")
    return client


def test_tables_of_a_glue_database_are_shared_until_they_are_dropped(
    deltaic: Deltaic, lake: Lake, glue: Any, read_tables: Callable[[], list[str]]
) -> None:
    outcomes = {
        outcome["table"]: outcome
        for outcome in deltaic.json(f"share follow sales --database glue:{lake.bucket} --schema g --now")
    }
    assert {name: outcome["did"] for name, outcome in outcomes.items()} == {
        "of_spark": "added", "of_athena": "added", "of_nobody": "refused",
    }  # fmt: skip
    assert "no Delta log" in outcomes["of_nobody"]["why"]
    assert read_tables() == ["of_athena", "of_spark"]
    glue.delete_table(DatabaseName=lake.bucket, Name="of_spark")
    outcomes = {outcome["table"]: outcome for outcome in deltaic.json("share follow sales --now")}
    assert outcomes["of_spark"]["why"] == f"the AWS Glue database '{lake.bucket}' no longer contains the table"
    assert read_tables() == ["of_athena"]


def test_iceberg_tables_of_a_glue_database_are_shared_while_clients_can_read_them(
    deltaic: Deltaic, lake: Lake, glue: Any, read_tables: Callable[[], list[str]]
) -> None:
    def write(name: str, version: int) -> None:
        root, key = f"s3://{lake.bucket}/iced/{name}", f"iced/{name}/metadata/v{version}.metadata.json"
        schema = {"schema-id": 0, "type": "struct", "fields": []}
        document = {"format-version": version, "table-uuid": name, "location": root, "last-updated-ms": 1}
        specs = [{"spec-id": 0, "fields": []}]
        body = json.dumps({**document, "schemas": [schema], "partition-specs": specs}).encode()
        lake.s3.put_object(Bucket=lake.bucket, Key=key, Body=body)
        parameters = {"table_type": "ICEBERG", "metadata_location": f"s3://{lake.bucket}/{key}"}
        table = {"Name": name, "Parameters": parameters, "StorageDescriptor": {"Location": root}}
        (glue.create_table if name not in written else glue.update_table)(DatabaseName=lake.bucket, TableInput=table)
        written.add(name)

    written: set[str] = set()
    write("ice", 2)
    write("old_ice", 1)
    outcomes = {
        outcome["table"]: outcome
        for outcome in deltaic.json(f"share follow sales --database glue:{lake.bucket} --exclude 'of_*' --now")
    }
    assert {name: outcome["did"] for name, outcome in outcomes.items()} == {"ice": "added", "old_ice": "refused"}
    assert "version 1 of the Iceberg format" in outcomes["old_ice"]["why"]
    [entry] = deltaic.json("table list sales")
    assert (entry["format"], entry["metadataLocation"]) == ("iceberg", f"glue://{lake.bucket}/ice")
    assert (entry["accessModes"], entry["iceberg"], entry["followed"]) == (["url"], "", True)
    write("ice", 1)
    write("old_ice", 2)
    assert actions_of(deltaic.json("share follow sales --now")) == {"ice": "hidden", "old_ice": "added"}
    assert read_tables() == ["old_ice"]
    write("ice", 3)
    assert actions_of(deltaic.json("share follow sales --now")) == {"ice": "back"}
    lake.commit("ice", folder="iced")
    stored = {"Location": f"s3://{lake.bucket}/iced/ice"}
    table = {"Name": "ice", "Parameters": {"table_type": "DELTA"}, "StorageDescriptor": stored}
    glue.update_table(DatabaseName=lake.bucket, TableInput=table)
    [replaced, hidden] = deltaic.json("share follow sales --now")
    assert (replaced["table"], replaced["did"], hidden["did"]) == ("ice", "refused", "hidden")


REFUSED = [
    pytest.param("sales", "use --folder or --database", id="nothing"),
    pytest.param("sales --folder s3://a/b --database glue:c", "not both", id="two sources"),
    pytest.param("sales --database sales", "use the form glue:NAME", id="a database of whom"),
    pytest.param("sales --off --now", "use --folder or --database", id="off and now"),
    pytest.param("sales --now", "no schema of share 'sales' follows a source", id="follows nothing"),
    pytest.param("sale --now", "did you mean sales?", id="no such share"),
    pytest.param("sales --folder nowhere", "is not a table location", id="no location"),
    pytest.param("sales --folder s3://no-such-lake/x", "the bucket of this folder does not exist", id="no bucket"),
    pytest.param("sales --folder {folder}/orders", "is a Delta table", id="a table"),
    pytest.param("sales --folder {folder}/orders/_delta_log", "is the _delta_log folder of a table", id="a log"),
    pytest.param("sales --database glue:a/b", "is not a database of AWS Glue", id="no database"),
    pytest.param("sales --folder {folder} --storage nowhere", "storage 'nowhere' not found", id="no storage"),
    pytest.param("sales --folder {folder} --exclude ''", "1 to 255 characters", id="empty pattern"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_an_invalid_source_is_refused(
    deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]], line: str, message: str
) -> None:
    answer = deltaic(f"share follow {line.format(folder=lake.folder)}")
    assert answer.exit_code > 0
    assert message in answer.stderr
    assert read_tables() == []
    assert deltaic.json("schema list sales") == []


def test_a_schema_follows_one_source(deltaic: Deltaic, lake: Lake, read_tables: Callable[[], list[str]]) -> None:
    deltaic.done(f"share follow sales --folder {lake.folder} --schema s")
    answer = deltaic(f"share follow sales --folder s3://{lake.bucket}/elsewhere --schema s")
    assert f"sales.s follows {lake.folder} already: stop that first" in answer.stderr
    deltaic.done(f"share follow sales --folder s3://{lake.bucket}/elsewhere")
    assert "add --schema, one of elsewhere, s" in deltaic("share follow sales --now").stderr
    assert read_tables() == []
