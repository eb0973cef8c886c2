"""Test `deltaic prove` on the deployed stack: rows of a correct stack, and the row that fails for each fault."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Deltaic
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic_ops.checks.prove.probes import PRICES_USD
from deltaic_ops.checks.prove.prove_report import read_results, write_report
from deltaic_ops.checks.prove.prove_rows import ROWS
from deltaic_ops.checks.prove.trial_catalog import READER, SHARE
from deltaic_ops.deploy.sam_template import ROOT
from deltaic_ops.inspection.findings import Finding, ok
from deltaic_ops.local.embedded import EmbeddedAws
from deploy.deployments import Deployment

pytestmark = pytest.mark.deploy

STACK = "deltaic-deploytest"
FILES = 300
UNTRIED = {
    "S3 Tables", "Streaming", "2 MB/s and 200 MB", "IPv6", "The firewall", "Your own KMS key", "X-Ray",
    "Your own domain", "Gradual deployment", "EMR Serverless", "S3's access log", "Backups",
}  # fmt: skip
"""Rows that the stack on the embedded AWS cannot show, because it lacks the feature or the time."""


def test_rows_have_the_names_of_the_page() -> None:
    page = (ROOT / "docs" / "first-deploy.md").read_text(encoding="utf-8")
    assert [row.name for row in ROWS] == re.findall(r"^\| \*\*(.+?)\*\*", page, re.MULTILINE)
    assert "by hand" not in page


def test_prices_are_those_of_the_page_of_costs() -> None:
    page = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    prices = {name: float(usd) for name, usd in re.findall(r"^\| (.+?) \| ([\d.]+) \| https", page, re.MULTILINE)}
    assert pytest.approx(PRICES_USD) == {
        "requests": prices["a million requests of a REST API"] / 1e6,
        "invocations": prices["a million invocations of functions"] / 1e6,
        "GB-seconds": prices["a GB-second of functions on arm64"],
        "read units": prices["a million read units of DynamoDB on demand"] / 1e6,
    }


def test_interrupted_report_is_continued_and_a_complete_one_is_not(tmp_path: Path) -> None:
    report, made = tmp_path / "proof", [ok("The layer", "y"), Finding("Removal", "failed", "<z>", "remove it")]
    write_report(report, {"stack": "s", "complete": False}, made)
    assert read_results(report, "s") == {"The layer": made[0]}
    assert read_results(report, "another") == {}
    assert "&lt;z&gt;" in report.with_suffix(".html").read_text()
    assert json.loads(report.with_suffix(".json").read_text())["rows"][1] == {
        "row": "Removal", "verdict": "failed", "seen": "<z>", "remedy": "remove it",
        "expected": "tables and key are kept",
    }  # fmt: skip
    write_report(report, {"stack": "s", "complete": True}, made)
    assert read_results(report, "s") == {}
    report.with_suffix(".json").write_text('{"stack": "s", "rows": [')
    assert read_results(report, "s") == {}


@pytest.fixture(scope="module")
def command(deployment: Deployment, embedded_aws: EmbeddedAws) -> Deltaic:
    assert deployment.api_id
    return Deltaic(dict(embedded_aws.environment), ["--stack", STACK])


@pytest.fixture(scope="module", autouse=True)
def ready(deployment: Deployment, client: Callable[[Any], Any]) -> Iterator[None]:
    """Give the account its role for access logs, and let the authorizer keep answers for a second, not a minute."""
    gateway, api = client("apigateway"), {"restApiId": deployment.api_id}
    role = {"op": "replace", "path": "/cloudwatchRoleArn", "value": "arn:aws:iam::000000000000:role/log"}
    gateway.update_account(patchOperations=[role])
    [authorizer] = gateway.get_authorizers(**api)["items"]

    def keep(seconds: int) -> None:
        change = {"op": "replace", "path": "/authorizerResultTtlInSeconds", "value": str(seconds)}
        gateway.update_authorizer(**api, authorizerId=authorizer["id"], patchOperations=[change])

    keep(1)
    yield
    keep(60)


def test_command_writes_a_report_and_removes_what_it_created(
    command: Deltaic, admin: CatalogAdmin, lake: str, client: Callable[[Any], Any], tmp_path: Path
) -> None:
    report = tmp_path / "proof"
    options = f"--encrypted-location s3://{lake}/keys --report {report} --files {FILES} --json"
    assert "use --yes" in command(f"prove s3://{lake}/here {options}").output  # asks before it spends
    assert not report.with_suffix(".json").exists()
    done = command(f"prove s3://{lake}/here {options} --yes")
    document = json.loads(report.with_suffix(".json").read_text())
    rows = {row["row"]: row for row in document["rows"]}
    assert {name: row["seen"] for name, row in rows.items() if row["verdict"] == "failed"} == {}
    assert {name for name, row in rows.items() if row["verdict"] == "not tried"} == UNTRIED
    assert all(row["seen"] for row in rows.values())
    assert (done.exit_code, document["complete"]) == (0, True)
    assert [finding["check"] for finding in json.loads(done.stdout)] == [row["row"] for row in document["rows"]]
    assert document["seconds of the first query"] > document["seconds of a later query"] > 0
    page = report.with_suffix(".html").read_text()
    assert all(f": {name}</summary>" in page.replace("&#x27;", "'") for name in rows)
    assert not re.search(r"dlt_|X-Amz-|AKIA|ASIA", page + json.dumps(document))
    assert_nothing_is_left(admin, client, lake)


def assert_nothing_is_left(admin: CatalogAdmin, client: Callable[[Any], Any], lake: str) -> None:
    assert SHARE not in {share.name for share in admin.shares.list()}
    assert READER not in {recipient.name for recipient in admin.recipients.list()}
    keys = [item["Key"] for item in client("s3").list_objects_v2(Bucket=lake).get("Contents", ())]
    assert not [key for key in keys if "deltaic-prove" in key]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("lake/here", "is not a table location"),
        ("s3://", "has no valid bucket name"),
        ("/tmp/lake", "is not a table location"),
        ("s3://no-such-bucket/here", "The specified bucket does not exist"),
    ],
)
def test_command_refuses_a_location_that_is_in_no_bucket(command: Deltaic, location: str, reason: str) -> None:
    result = command(f"prove {location} --yes")
    assert (result.exit_code, reason in result.output) == (1, True), result.output


def test_trial_refuses_a_share_of_the_same_name_that_it_did_not_create(
    command: Deltaic, admin: CatalogAdmin, client: Callable[[Any], Any], lake: str
) -> None:
    admin.shares.create(SHARE, comment="of somebody else")
    try:
        assert "not of an earlier trial" in command(f"prove s3://{lake}/here --yes").output
        assert admin.shares.get(SHARE).comment == "of somebody else"
    finally:
        admin.shares.delete(SHARE)
    assert_nothing_is_left(admin, client, lake)
