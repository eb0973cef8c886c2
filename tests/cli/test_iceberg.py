"""Commands for tables that Iceberg clients can read: refusals, warnings and profiles."""

from __future__ import annotations

import json
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import httpx
import pyarrow as pa
import pytest
from delta_sharing.protocol import DeltaSharingProfile
from golden.library import load
from served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import boto3
    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "cli-iceberg"


@pytest.fixture
def lake(filled: Deltaic, embedded_aws: EmbeddedAws) -> Deltaic:
    """Return the command over a catalog with a schema, and a bucket with one table that such clients can read."""
    import boto3

    environment = dict(embedded_aws.environment)
    session = boto3.Session(
        environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1"
    )
    s3 = session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    options = {**environment, "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
    rows = pa.table({"id": [1]})
    deltalake.write_deltalake(f"s3://{BUCKET}/plain", rows, mode="overwrite", storage_options=options)
    columns = [{"id": 1, "name": "id", "type": "long", "required": False}]
    columns.append({"id": 2, "name": "country", "type": "string", "required": False})
    document = {
        "format-version": 2,
        "table-uuid": "u",
        "location": f"s3://{BUCKET}/own",
        "last-updated-ms": 1,
        "schemas": [{"schema-id": 0, "type": "struct", "fields": columns}],
        "partition-specs": [
            {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "c", "transform": "identity"}]}
        ],
    }
    for version in (1, 2):
        body = json.dumps({**document, "format-version": version}).encode()
        s3.put_object(Bucket=BUCKET, Key=f"own/metadata/v{version}.metadata.json", Body=body)
    variant = load("variant").path
    for path in variant.rglob("*"):
        if path.is_file():
            s3.put_object(Bucket=BUCKET, Key=f"variant/{path.relative_to(variant).as_posix()}", Body=path.read_bytes())
    filled.done("share create iced")
    filled.done("schema create iced.s")
    return filled


def test_iceberg_access_can_be_enabled_and_disabled(lake: Deltaic) -> None:
    lake.done(f"table create iced.s.t --location s3://{BUCKET}/plain")
    assert lake.json("table show iced.s.t")["iceberg"] == ""
    assert lake.json("table update iced.s.t --iceberg signed")["iceberg"] == "signed"
    assert "warnings" not in lake.json("table show iced.s.t")
    assert "signed" in lake.done("table list iced")
    refused = lake("table update iced.s.t --iceberg vended")
    assert refused.exit_code == 1
    assert "--access-mode dir --history" in refused.stderr
    table = lake.json("table update iced.s.t --iceberg vended --access-mode dir --history")
    assert (table["iceberg"], table["accessModes"]) == ("vended", ["dir"])
    assert lake.json("table update iced.s.t --iceberg off")["iceberg"] == ""


def test_a_table_that_iceberg_clients_cannot_read_causes_a_warning(lake: Deltaic) -> None:
    result = lake(f"table create iced.s.v --location s3://{BUCKET}/variant --iceberg signed")
    assert result.exit_code == 0
    assert "Iceberg clients cannot read this table: " in result.stderr
    [warning] = lake.json("table show iced.s.v")["warnings"]
    assert "variant" in warning


def test_a_profile_contains_the_iceberg_endpoint_if_the_server_has_one(lake: Deltaic) -> None:
    lake.variables["ICEBERG_BUCKET"] = "deltaic-icebergbucket"
    lake.done("token create alice --profile alice.share")
    profile = json.loads(Path("alice.share").read_text())
    assert profile["icebergEndpoint"] == f"{profile['endpoint']}/iceberg"
    assert DeltaSharingProfile.read_from_file("alice.share").endpoint == profile["endpoint"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "use --location"),
        ("--glue sales.orders", "--format iceberg"),
        ("--format iceberg", "needs one of --location, --glue"),
        (f"--format iceberg --glue sales.orders --location s3://{BUCKET}/plain", "needs one of --location, --glue"),
        ("--format iceberg --glue orders", "use the form database.table"),
        (
            "--format iceberg --glue sales.none",
            "'sales.none' (glue:GetTable of sales.none: EntityNotFound",
        ),
        (f"--format iceberg --location s3://{BUCKET}/plain", "cannot be read with your credentials"),
        (f"--format iceberg --location s3://{BUCKET}/plain/x.metadata.json", "metadata/ folder"),
        (f'--format iceberg --location s3://{BUCKET}/plain --partition-filter "a = 1"', "metadata does not exist"),
        (f"--format iceberg --location s3://{BUCKET}/plain --hide-columns a", "cannot have hidden columns"),
    ],
)
def test_an_iceberg_table_that_cannot_be_shared_is_refused(lake: Deltaic, options: str, text: str) -> None:
    refused = lake(f"table create iced.s.own {options}")
    assert refused.exit_code != 0
    assert text in " ".join(refused.output.split())
    assert lake.json("table list iced") == []


OWN = f"--format iceberg --location s3://{BUCKET}/own/metadata/v2.metadata.json"


def test_an_iceberg_table_is_shared_with_both_kinds_of_clients(lake: Deltaic) -> None:
    table = lake.json(f"table create iced.s.both {OWN}")
    assert (table["accessModes"], table["iceberg"], table["history"]) == (["url", "dir"], "signed", True)
    facts = lake.json("table show iced.s.both")["latest"]
    assert (facts["version"], facts["columns"]) == (0, {"id": "long", "country": "string"})
    assert (facts["partitionedBy"], facts["formats"]) == (["country"], ["parquet", "delta"])
    reads = [client["reads"] for client in facts["clients"]]
    assert reads == [True, True, False, True]
    [finding] = lake.json("lint iced.s.both")["findings"]
    assert finding["message"] == "Delta Sharing clients and Iceberg clients can read the table"
    table = lake.json(f"table create iced.s.some {OWN} --access-mode url --partition-filter \"country = 'FI'\"")
    assert (table["accessModes"], table["iceberg"]) == (["url"], "")


def test_an_iceberg_table_in_files_is_created_by_apply(lake: Deltaic) -> None:
    lake.done(f"table create iced.s.both {OWN}")
    created = lake.json("table show iced.s.both")
    lake.done("export declared")
    lake.done("table delete iced.s.both")
    assert [step["action"] for step in lake.json("plan declared")["steps"]] == ["create"]
    lake.done("apply declared --allow-wider")
    applied = lake.json("table show iced.s.both")
    assert {name for name in created if applied[name] != created[name]} <= {"id", "createdAt", "updatedAt"}
    assert lake.json("plan declared")["steps"] == []


def test_apply_refuses_other_metadata_of_the_same_folder_that_clients_cannot_read(lake: Deltaic) -> None:
    lake.done(f"table create iced.s.both {OWN}")
    lake.done("export declared")
    texts = {path: path.read_text(encoding="utf-8") for path in Path("declared").rglob("*.yaml")}
    [(file, text)] = [(path, text) for path, text in texts.items() if "v2.metadata.json" in text]
    file.write_text(text.replace("v2.metadata.json", "v1.metadata.json"), encoding="utf-8")
    refused = lake("apply declared --allow-wider")
    assert refused.exit_code == 1
    assert "version 1 of the Iceberg format" in " ".join(refused.output.split())
    assert lake.json("table show iced.s.both")["metadataLocation"].endswith("v2.metadata.json")


def test_a_new_kind_of_access_to_an_iceberg_table_is_checked(lake: Deltaic) -> None:
    lake.done(f"table create iced.s.old {OWN.replace('v2', 'v1')} --access-mode dir")
    refused = lake("table update iced.s.old --access-mode dir --access-mode url")
    assert refused.exit_code == 1
    assert "version 1 of the Iceberg format" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (f'{OWN} --partition-filter "id = 1"', "partition column"),
        (f"{OWN.replace('v2', 'v1')}", "version 1 of the Iceberg format"),
        (f"{OWN} --access-mode url --access-mode dir --partition-filter \"country = 'FI'\"", "cannot have access mode"),
        (f"{OWN} --access-mode url --iceberg signed", "read the whole folder"),
    ],
)
def test_an_iceberg_table_that_clients_would_misread_is_refused(lake: Deltaic, options: str, text: str) -> None:
    refused = lake(f"table create iced.s.own {options}")
    assert refused.exit_code != 0
    assert text in " ".join(refused.output.split())


def test_a_table_in_a_table_bucket_is_shared(
    lake: Deltaic, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    client = aws_session.client("s3tables", endpoint_url=embedded_aws.endpoint)
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    arn = client.create_table_bucket(name="cli-table-bucket")["arn"]
    client.create_namespace(tableBucketARN=arn, namespace=["sales"])
    client.create_table(tableBucketARN=arn, namespace="sales", name="orders", format="ICEBERG")
    place = client.get_table(tableBucketARN=arn, namespace="sales", name="orders")
    bucket, _, folder = place["warehouseLocation"].removeprefix("s3://").partition("/")
    s3.create_bucket(Bucket=bucket)
    body = s3.get_object(Bucket=BUCKET, Key="own/metadata/v2.metadata.json")["Body"].read()
    key = f"{folder}/metadata/00001-a.metadata.json"
    s3.put_object(Bucket=bucket, Key=key, Body=body.replace(f"s3://{BUCKET}/own".encode(), f"s3://{bucket}".encode()))
    token = {"versionToken": place["versionToken"], "metadataLocation": f"s3://{bucket}/{key}"}
    client.update_table_metadata_location(tableBucketARN=arn, namespace="sales", name="orders", **token)
    create = f"table create iced.s.bucketed --format iceberg --table-bucket {arn}"
    assert "use the form namespace.table" in lake(f"{create} orders").stderr
    assert "cannot read the Iceberg table 'sales.none'" in lake(f"{create} sales.none").stderr
    assert "use --iceberg signed" in lake(f"{create} sales.orders --iceberg vended").stderr
    table = lake.json(f"{create} sales.orders --access-mode url")
    assert table["metadataLocation"] == f"s3tables://{arn}/sales/orders"
    assert lake.json("table show iced.s.bucketed")["latest"]["partitionedBy"] == ["country"]


@pytest.fixture
def governed(lake: Deltaic, embedded_aws: EmbeddedAws) -> Iterator[Deltaic]:
    """Return the command with an AWS in which Lake Formation manages every Glue table."""

    class Proxy(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            url, headers = embedded_aws.endpoint + self.path, dict(self.headers)
            answer = httpx.request(self.command, url, headers=headers, content=body)
            content = answer.content.replace(b'LakeFormation": false', b'LakeFormation": true')
            self.send_response_only(answer.status_code)
            for name in {*answer.headers} - {"content-encoding", "transfer-encoding", "content-length"}:
                self.send_header(name, answer.headers[name])
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else content)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = forward  # noqa: N815 -- names of http.server

    with served(Proxy) as endpoint:
        yield replace(lake, variables={**lake.variables, "AWS_ENDPOINT_URL": endpoint})


def test_a_table_that_lake_formation_manages_is_shared_with_a_warning(
    governed: Deltaic, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    glue = aws_session.client("glue", endpoint_url=embedded_aws.endpoint)
    glue.create_database(DatabaseInput={"Name": "governed"})
    parameters = {"table_type": "ICEBERG", "metadata_location": f"s3://{BUCKET}/own/metadata/v2.metadata.json"}
    glue.create_table(DatabaseName="governed", TableInput={"Name": "own", "Parameters": parameters})
    created = governed("table create iced.s.governed --format iceberg --glue governed.own")
    assert created.exit_code == 0
    assert "Lake Formation, whose row and column rules do not apply" in created.stderr
    [warning] = governed.json("table show iced.s.governed")["warnings"]
    assert "Lake Formation" in warning
    findings = {finding["check"]: finding for finding in json.loads(governed("doctor --json").stdout)}
    finding = findings["reads the Iceberg table iced.s.governed"]
    assert (finding["verdict"], "Lake Formation" in finding["message"]) == ("warning", True)


def test_a_glue_table_of_another_format_is_refused(
    lake: Deltaic, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    glue = aws_session.client("glue", endpoint_url=embedded_aws.endpoint)
    glue.create_database(DatabaseInput={"Name": "hive"})
    glue.create_table(DatabaseName="hive", TableInput={"Name": "plain", "Parameters": {}})
    refused = lake("table create iced.s.own --format iceberg --glue hive.plain")
    assert (refused.exit_code, "'hive.plain' is not an Iceberg table" in refused.stderr) == (1, True), refused.output


def test_lint_reads_iceberg_metadata_of_an_iceberg_table(lake: Deltaic) -> None:
    lake.done(f"table create iced.s.own --format iceberg --location s3://{BUCKET}/plain --unchecked")
    assert lake.json("table show iced.s.own")["latest"] is None
    assert "last checkpoint" not in lake.done("table show iced.s.own")
    linted = lake("lint iced.s.own --json")
    [finding] = json.loads(linted.stdout)["findings"]
    assert (linted.exit_code, finding["check"], finding["verdict"]) == (1, "metadata", "failed")
