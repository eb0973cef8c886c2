"""What the kit says of servers that offer none of what OpenSharing adds, and whom it asks for Iceberg's door."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from conformance.conftest import Gateway
from conformance.wrong import Defect, status, when
from delta_sharing_conformance.client import SharingClient
from delta_sharing_conformance.command import check_server
from delta_sharing_conformance.run import CHECKS, run
from deltaic.sign_in.activation import profile

pytestmark = pytest.mark.slow

OPENSHARING = [one for one in CHECKS if one.section.startswith("OpenSharing")]
ADDED = re.compile(r"volumes|skills|models|/tables/[^/]+$")


@pytest.mark.parametrize("answer", [404, 405, 501])
def test_a_server_that_has_none_of_it_fails_none_of_it(
    caller: Callable[[Defect | None], AbstractContextManager[SharingClient]], answer: int
) -> None:
    with caller(when(lambda seen: ADDED.search(seen.path), status(answer))) as older:
        found = list(run(SharingClient(older.http, older.endpoint, older.bearer), OPENSHARING))
    assert [one for one in found if one.result != "not tried"] == []
    assert len(found) > len({one.section for one in OPENSHARING})


def test_a_listing_that_fails_is_no_server_that_has_none(
    caller: Callable[[Defect | None], AbstractContextManager[SharingClient]],
) -> None:
    with caller(when(lambda seen: seen.path.endswith("/all-volumes"), status(400))) as wrong:
        found = {one.check: one.result for one in run(wrong, OPENSHARING)}
    assert found["lists volumes"] == "fails"
    assert found["lists skills"] == "holds"


def test_the_door_of_a_profile_is_not_asked_of_another_endpoint(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issued = gateway.readers["conformance"].issued
    (tmp_path / "other.share").write_text(profile("http://127.0.0.1:9/elsewhere", issued, serves_iceberg=True))
    check_server([gateway.endpoint, "--profile", str(tmp_path / "other.share"), "--tables", "1", "--json"], "kit")
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["configures a catalog of each share"]["result"] == "not tried"
    assert "another endpoint" in found["configures a catalog of each share"]["said"]
    assert found["lists volumes"]["result"] == "holds"


def test_a_profile_may_name_no_door(gateway: Gateway) -> None:
    with httpx.Client() as http:
        client = SharingClient(http, gateway.endpoint, gateway.token)
        found = list(run(client, [one for one in OPENSHARING if "Iceberg" in one.section]))
    assert {one.result for one in found} == {"not tried"}
