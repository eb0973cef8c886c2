"""Commands for tables that Iceberg clients can read: refusals, warnings and profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest
from delta_sharing.protocol import DeltaSharingProfile
from golden.library import load

if TYPE_CHECKING:
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
    assert "Iceberg clients cannot read the table: " in result.stderr
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
        ("--format iceberg", "needs either --location or --glue"),
        (f"--format iceberg --glue sales.orders --location s3://{BUCKET}/plain", "needs either --location or --glue"),
        ("--format iceberg --glue orders", "use the form database.table"),
        ("--format iceberg --glue sales.none", "cannot read table 'sales.none' of AWS Glue"),
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
    [finding] = lake.json("lint iced.s.both")["findings"]
    assert finding["said"] == "Delta Sharing clients and Iceberg clients can read the table"
    table = lake.json(f"table create iced.s.some {OWN} --access-mode url --partition-filter \"country = 'FI'\"")
    assert (table["accessModes"], table["iceberg"]) == (["url"], "")


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


def test_lint_reads_iceberg_metadata_of_an_iceberg_table(lake: Deltaic) -> None:
    lake.done(f"table create iced.s.own --format iceberg --location s3://{BUCKET}/plain --unchecked")
    assert lake.json("table show iced.s.own")["latest"] is None
    assert "last checkpoint" not in lake.done("table show iced.s.own")
    linted = lake("lint iced.s.own --json")
    [finding] = json.loads(linted.stdout)["findings"]
    assert (linted.exit_code, finding["check"], finding["verdict"]) == (1, "metadata", "failed")
