"""A table is read before it is shared: unreadable tables are refused, unless the check is skipped."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from delta_tables.handmade import lines, metadata, protocol

if TYPE_CHECKING:
    import boto3
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "looked-at-lake"
WIDENING = "typeWidening"
LOGS: dict[str, dict[int, Any]] = {
    "good": {0: [protocol(), metadata()]},
    "gap": {0: [protocol(), metadata()], 2: []},
    "beheaded": {3: []},
    "bare": {0: [protocol()]},
    "mapped": {
        0: [
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping", WIDENING]}},
            metadata({"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}, partitions=("p", "x")),
        ]
    },
    "foreign": {0: [{"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}, metadata()]},
}
NEW = "table create vaccine_share.acme.new --location"
BROKEN = [
    pytest.param(f"s3://{BUCKET}/nothing", "the table has no Delta log (_delta_log/ is empty or absent)", id="folder"),
    pytest.param("s3://no-such-lake/t", "the bucket of this table does not exist", id="bucket"),
    pytest.param(f"s3://{BUCKET}/gap", "cannot be read with your credentials: table files missing", id="gap"),
    pytest.param(f"s3://{BUCKET}/beheaded", "neither commit 0 nor a complete checkpoint", id="no first commit"),
    pytest.param(f"s3://{BUCKET}/bare", "cannot be read with your credentials", id="no schema"),
    pytest.param(f"s3://{BUCKET}/foreign", "cannot be read: The table needs reader version 9", id="a later protocol"),
    pytest.param(f"s3://{BUCKET}/good --storage silent", "/good cannot be read with your credentials", id="no answer"),
    # Recipients on AWS must not receive the session of an operator.
    pytest.param(f"s3://{BUCKET}/good --storage keyless", "has an endpoint but no keys", id="no keys"),
]


@pytest.fixture(scope="module")
def lake(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> str:
    """Return a bucket with a log of each kind."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    for name, commits in LOGS.items():
        for version, actions in commits.items():
            s3.put_object(Bucket=BUCKET, Key=f"{name}/_delta_log/{version:020d}.json", Body=lines(actions))
    return f"s3://{BUCKET}"


@pytest.fixture
def looking(filled: Deltaic, admin: CatalogAdmin, lake: str) -> Deltaic:
    """Return the command with a catalog that has an existing table."""
    filled.done(
        "storage create silent --endpoint http://127.0.0.1:9 --path-style --access-key-id A --secret-access-key-stdin",
        stdin="very-secret\n",
    )
    admin.storages.create("keyless", endpoint="http://127.0.0.1:9", path_style=True)
    admin.tables.create("vaccine_share", "acme", "there", f"{lake}/good")
    return filled


@pytest.mark.parametrize(("location", "reason"), BROKEN)
def test_an_unreadable_table_is_not_shared(looking: Deltaic, location: str, reason: str) -> None:
    before = looking.json("table list vaccine_share")
    for line in (f"{NEW} {location}", f"table update vaccine_share.acme.there --location {location}"):
        refused = looking(line)
        assert (refused.exit_code, reason in refused.stderr) == (1, True), refused.output
        assert location.partition(" ")[0] in refused.stderr
        # What this server does not read it would refuse recipients too.
        remedy = "Correct --location or --storage, or skip this check with --unchecked"
        assert (remedy in refused.stderr) != ("reader version" in reason)
    assert looking.json("table list vaccine_share") == before
    table = looking.json(f"{NEW} {location} --unchecked")
    assert table["location"] == location.partition(" ")[0]
    # A table whose location does not change is not read again, so that other fields can be changed.
    assert looking.json("table update vaccine_share.acme.new --history")["history"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("iced/metadata/v1.metadata.json", "an Iceberg table: share it with --format iceberg"),
        ("loose/p=1/a.parquet", "has Parquet files: convert it with deltalake.convert_to_deltalake"),
    ],
)
def test_a_folder_with_another_format_is_refused_with_a_hint(
    looking: Deltaic, aws_session: boto3.Session, embedded_aws: EmbeddedAws, key: str, message: str
) -> None:
    aws_session.client("s3", endpoint_url=embedded_aws.endpoint).put_object(Bucket=BUCKET, Key=key, Body=b"{}")
    location = f"s3://{BUCKET}/{key.partition('/')[0]}"
    for line in (f"{NEW} {location}", f"lint {location}"):
        refused = looking(line)
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output


def test_an_existing_table_is_shared(looking: Deltaic, lake: str) -> None:
    assert looking.json(f"{NEW} {lake}/good/")["location"] == f"{lake}/good"


def test_sharing_a_folder_warns_of_limits_of_its_clients(looking: Deltaic, lake: str) -> None:
    by_url = looking.json(f"{NEW} {lake}/mapped --history")
    [by_format, *_] = by_url["warnings"]
    assert by_format.startswith("columnMapping: only delta format: clients that support only parquet format")
    by_folder = "table update vaccine_share.acme.new --access-mode url --access-mode dir"
    mapped, partitioned, widened, odd = looking.json(by_folder)["warnings"]
    assert mapped.startswith("the table uses column mapping: to_pyarrow_table and to_pandas of deltalake silently")
    assert partitioned.startswith("delta_scan of DuckDB silently returns nulls in the partition columns")
    assert widened == f"deltalake and polars cannot read {WIDENING}: add access mode url"
    assert odd.startswith("values of p may put a space")
    # The warning is printed once, and not for changes of other fields.
    assert "warnings" not in looking.json(by_folder)
    looking.done("table delete vaccine_share.acme.new")
    result = looking(f"{NEW} {lake}/mapped --history --access-mode dir")
    assert f"warning: {mapped}" in result.stderr, result.output


def test_history_without_change_data_is_shared_with_a_warning(looking: Deltaic, lake: str) -> None:
    [warning] = looking.json(f"{NEW} {lake}/good --history")["warnings"]
    assert "property delta.enableChangeDataFeed to true" in warning
    assert "warnings" not in looking.json("table update vaccine_share.acme.new --history"), "said once"
    assert looking.json("table update vaccine_share.acme.there --history")["warnings"] == [warning]
    looking.done(f"table create vaccine_share.acme.unseen --location {lake}/good --unchecked")
    assert "warnings" not in looking.json("table update vaccine_share.acme.unseen --history --unchecked")


def test_a_missing_storage_suggests_the_nearest(looking: Deltaic, lake: str) -> None:
    refused = looking(f"{NEW} {lake}/good --storage silnt")
    assert "storage 'silnt' not found: did you mean silent?" in refused.stderr, refused.output


def test_an_operator_without_read_access_can_share_with_unchecked(
    looking: Deltaic, lake: str, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    iam: Any = aws_session.client("iam", endpoint_url=embedded_aws.endpoint)
    iam.create_user(UserName="librarian")
    allowed = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.put_user_policy(UserName="librarian", PolicyName="P", PolicyDocument=document)
    key = iam.create_access_key(UserName="librarian")["AccessKey"]
    keys = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    refused = looking(f"{NEW} {lake}/good", **keys)
    assert refused.exit_code == 1
    assert "good cannot be read with your credentials: access to it is denied" in refused.stderr, refused.output
    assert "--unchecked" in refused.stderr
    assert looking(f"{NEW} {lake}/good --unchecked", **keys).exit_code == 0
    findings = {finding["check"]: finding for finding in json.loads(looking("doctor --json", **keys).stdout)}
    assert findings["reads the log of vaccine_share.acme.new"]["verdict"] == "not tried"


def test_a_grants_filter_names_a_table_whose_storage_does_not_respond(
    looking: Deltaic, admin: CatalogAdmin, lake: str
) -> None:
    admin.tables.delete("vaccine_share", "acme", "patients")
    admin.tables.create("vaccine_share", "acme", "far", f"{lake}/good", storage="silent")
    refused = looking("grant update alice vaccine_share --partition-filter \"p = 'a'\"")
    assert refused.exit_code == 1
    assert "checked against table vaccine_share.acme.far" in refused.stderr, refused.output


def test_the_doctor_names_every_table_whose_log_cannot_be_read(looking: Deltaic, admin: CatalogAdmin) -> None:
    for number, case in enumerate(BROKEN):
        location, _, storage = str(case.values[0]).partition(" --storage ")
        admin.tables.create("vaccine_share", "acme", f"t{number}", location, storage=storage)
    source, sql = "vaccine_share.acme.there", "SELECT * FROM source"
    admin.views.create("vaccine_share", "acme", "unmade", "s3://views/unmade", source=source, sql=sql, properties=())
    findings = {finding["check"]: finding for finding in json.loads(looking("doctor --json").stdout)}
    assert "reads the log of vaccine_share.acme.unmade" not in findings
    for number, case in enumerate(BROKEN):
        finding = findings[f"reads the log of vaccine_share.acme.t{number}"]
        assert str(case.values[1]) in finding["message"]
        name = f"vaccine_share.acme.t{number}"
        expected = (
            ("warning", "deltaic doctor") if case.id == "no answer" else ("failed", f"deltaic table delete {name}")
        )
        assert (finding["verdict"], expected[1] in finding["remedy"]) == (expected[0], True), finding
    # Of the fixtures' tables, one exists and one does not.
    assert findings["reads the log of vaccine_share.acme.patients"]["verdict"] == "failed"
    assert findings["reads the logs of shared tables"]["message"] == f"1 of {len(BROKEN) + 2}"


def test_table_show_lists_which_clients_can_read_the_latest_version(
    looking: Deltaic, admin: CatalogAdmin, lake: str
) -> None:
    latest = looking.json("table show vaccine_share.acme.there")["latest"]
    assert (latest["version"], latest["files"], latest["bytes"], latest["checkpoint"]) == (0, 0, 0, None)
    assert (latest["formats"], latest["features"]) == (["parquet", "delta"], [])
    assert latest["committedAt"].startswith("20")
    admin.tables.create("vaccine_share", "acme", "mapped", f"{lake}/mapped")
    latest = looking.json("table show vaccine_share.acme.mapped")["latest"]
    assert (latest["formats"], latest["features"]) == (["delta"], ["columnMapping"])
    assert latest["partitionedBy"] == ["p", "x"]
    assert {"p", "x"} <= {*latest["columns"]}
    assert latest["columns"]["p"] == "string"
    reads = {client["clients"].partition(":")[0]: (client["reads"], client["remark"]) for client in latest["clients"]}
    assert reads["delta format"] == (True, "")
    assert reads["parquet format"] == (False, "columnMapping: share a view, or a copy without the feature")
    assert reads["credentials for the folder"] == (
        False,
        "needs --access-mode url --access-mode dir --history",
    )
    admin.tables.update("vaccine_share", "acme", "mapped", history=True, access_modes=["dir"])
    by_folder = looking.json("table show vaccine_share.acme.mapped")["latest"]["clients"]
    assert [client["reads"] for client in by_folder] == [False, False, False, False]
    assert f"deltalake and polars cannot read {WIDENING}" in by_folder[2]["remark"]
    admin.tables.update("vaccine_share", "acme", "there", history=True, access_modes=["url", "dir"])
    by_both = looking.json("table show vaccine_share.acme.there")["latest"]["clients"]
    assert [client["reads"] for client in by_both] == [True, True, True, False]
    output = looking.done("table show vaccine_share.acme.mapped")
    assert "partitionedBy" in output
    assert re.search(r"last checkpoint +none", output)
    admin.tables.create("vaccine_share", "acme", "gap", f"{lake}/gap")
    unread = looking("table show vaccine_share.acme.gap")
    assert (unread.exit_code, "table files missing" in unread.stderr) == (0, True), unread.output
    latest = looking.json("table show vaccine_share.acme.gap")
    assert (latest["latest"], len(latest["warnings"])) == (None, 1)
    admin.tables.update("vaccine_share", "acme", "gap", history=True, iceberg="signed")
    latest = looking.json("table show vaccine_share.acme.gap")
    assert (latest["latest"], len(latest["warnings"])) == (None, 2)
    assert not {"latest", "warnings"} & {*looking.json("table show vaccine_share.acme.gap --no-look")}


def test_access_counts_visible_files_of_readable_tables(looking: Deltaic, admin: CatalogAdmin, lake: str) -> None:
    admin.tables.create("vaccine_share", "acme", "gap", f"{lake}/gap")
    access = looking.json("access alice vaccine_share.acme.there --count")
    assert (access["version"], access["files"], access["rows"], access["notCounted"]) == (0, 0, 0, "")
    tables_ = {table["table"]: table for table in looking.json("recipient show alice --count")["tables"]}
    assert tables_["vaccine_share.acme.there"]["rows"] == 0
    assert "table files missing" in tables_["vaccine_share.acme.gap"]["notCounted"]
    admin.tables.update("vaccine_share", "acme", "there", history=True, start_version=9)
    late = looking.json("access alice vaccine_share.acme.there --count")
    assert (late["files"], late["notCounted"]) == (None, "You can only query table data since version 9.")
    admin.tables.update("vaccine_share", "acme", "there", start_version=0)
    output = looking.done("recipient show alice --count")
    assert "0 rows in 0 files of version 0" in output
    looking.done("recipient update alice --ends 2020-01-01")
    ended = looking.json("recipient show alice --count")["tables"][0]
    assert ended["notCounted"] == "the access of 'alice' ended at 2020-01-01 00:00 UTC"
    looking.done("recipient update alice --ends never")
    assert "rows" not in looking.json("access alice vaccine_share.acme.there")
