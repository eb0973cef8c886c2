"""Results for servers without OpenSharing, and the endpoint for Iceberg checks."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from conformance.conftest import Gateway
from conformance.defects import Defect, status, when
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.command import check_server
from delta_sharing_conformance.run import CHECKS, run
from deltaic.sign_in.activation import profile

pytestmark = pytest.mark.slow

OPENSHARING = [check for check in CHECKS if check.section.startswith("OpenSharing")]
ADDED_PATHS = re.compile(r"volumes|skills|models|/tables/[^/]+$")


@pytest.mark.parametrize("code", [404, 405, 501])
def test_server_without_opensharing_fails_no_check(
    defective: Callable[[Defect | None], AbstractContextManager[SharingClient]], code: int
) -> None:
    with defective(when(lambda exchange: ADDED_PATHS.search(exchange.path), status(code))) as client:
        results = list(run(SharingClient(client.http, client.endpoint, client.bearer), OPENSHARING))
    assert [result for result in results if result.result != "not tried"] == []
    assert len(results) > len({check.section for check in OPENSHARING})


def test_listing_with_an_error_fails_its_check(
    defective: Callable[[Defect | None], AbstractContextManager[SharingClient]],
) -> None:
    with defective(when(lambda exchange: exchange.path.endswith("/all-volumes"), status(400))) as client:
        results = {result.check: result.result for result in run(client, OPENSHARING)}
    assert results["lists volumes"] == "fails"
    assert results["lists skills"] == "holds"


def test_iceberg_endpoint_is_not_used_with_another_endpoint(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issued = gateway.readers["conformance"].issued
    (tmp_path / "other.share").write_text(profile("http://127.0.0.1:9/elsewhere", issued, serves_iceberg=True))
    check_server(tmp_path / "other.share", gateway.endpoint, tables=1, as_json=True)
    results = {result["check"]: result for result in json.loads(capsys.readouterr().out)}
    assert results["configures a catalog of each share"]["result"] == "not tried"
    assert "another endpoint" in results["configures a catalog of each share"]["message"]
    assert results["lists volumes"]["result"] == "holds"


def test_profile_without_iceberg_endpoint_skips_iceberg_checks(gateway: Gateway) -> None:
    with httpx.Client() as http:
        client = SharingClient(http, gateway.endpoint, gateway.token)
        results = list(run(client, [check for check in OPENSHARING if "Iceberg" in check.section]))
    assert {result.result for result in results} == {"not tried"}
