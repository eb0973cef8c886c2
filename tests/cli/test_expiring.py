"""`deltaic expiring` lists what ends soon in order, without expired and revoked entries."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.conftest import Deltaic


def test_expiring_lists_what_ends_soon_and_limit_options_are_parsed(deltaic: Deltaic) -> None:
    today = datetime.now(UTC)
    for line in ("share create sales", "share create trial", "recipient create alice", "recipient create gone"):
        deltaic.done(line)
    for name in ("alice", "gone"):
        deltaic.done(f"token create {name} --expires 12h")
    deltaic.done("token create alice --expires 90d")
    deltaic.done(f"grant create alice sales --ends {today + timedelta(days=3):%Y-%m-%d}")
    deltaic.done(f"grant create gone sales --ends {today + timedelta(days=3):%Y-%m-%d}")
    deltaic.done("grant create alice trial --ends 2020-01-01")
    deltaic.done(f"recipient update alice --ends {today + timedelta(days=5):%Y-%m-%dT%H:%M}Z")
    deltaic.done("recipient update gone --ends 2020-01-01")
    entries = json.loads(deltaic.done("expiring --within 7d --json"))
    assert [(entry["recipient"], entry["kind"]) for entry in entries] == [
        ("alice", "token"),
        ("alice", "grant"),
        ("alice", "recipient"),
    ]
    assert entries[1]["what"] == "sales"
    assert json.loads(deltaic.done("expiring --within 1h --json")) == []
    assert len(json.loads(deltaic.done("token list alice --json"))) == 2
    assert "ID" not in deltaic.done("recipient list").split()
    assert "ID" in deltaic.done("recipient list --ids").split()
    assert "ended 2020-01-01" in deltaic.done("grant list --recipient alice")
    assert "ended 2020-01-01" in deltaic.done("recipient list")
    deltaic.done("recipient update alice --address 203.0.113.7 --bytes-per-day 50GB --requests-per-minute 60")
    recipient = json.loads(deltaic.done("recipient show alice --json"))
    assert list(recipient)[:2] == ["name", "id"]
    assert (recipient["addresses"], recipient["bytesPerDay"], recipient["requestsPerMinute"]) == (
        ["203.0.113.7/32"],
        50 * 10**9,
        60,
    )
    deltaic.done("recipient update alice --remove-address 203.0.113.7 --bytes-per-day 0 --ends never")
    recipient = json.loads(deltaic.done("recipient show alice --json"))
    assert (recipient["addresses"], recipient["bytesPerDay"], recipient["endsAt"]) == ([], 0, None)
    for wrong in ("--bytes-per-day many", "--ends tomorrow", "--address nowhere"):
        assert deltaic(f"recipient update alice {wrong}").exit_code in {1, 2}
