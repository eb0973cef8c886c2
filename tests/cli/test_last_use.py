"""The last use of keys and tables comes from the usage table, without requests of checks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

NOW = datetime.now(UTC).replace(microsecond=0)
SCHEMA = pa.schema([
    ("time", pa.timestamp("us", "UTC")),
    ("day", pa.date32()),
    ("kind", pa.string()),
    ("status", pa.int32()),
    ("recipient_id", pa.string()),
    ("token_id", pa.string()),
    ("table_id", pa.string()),
])  # fmt: skip


def used(days_ago: float, recipient: str, token: str | None, table: str, **more: Any) -> dict[str, Any]:
    time_ = NOW - timedelta(days_ago)
    event = {"recipient_id": recipient, "token_id": token, "table_id": table, "kind": "request", "status": 200}
    return {**event, "time": time_, "day": time_.date(), **more}


def timestamp(days_ago: float) -> str:
    return f"{NOW - timedelta(days_ago):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def usage(filled: Deltaic, admin: CatalogAdmin, tmp_path: Path) -> str:
    """Return the place of a table in which each key of alice's, and somebody else, has used the table."""
    alice, table = admin.recipients.get("alice").id, admin.tables.get("vaccine_share", "acme", "patients").id
    token = filled.json("token create alice")["id"]
    policy = admin.federation.create(
        admin.recipients.get("alice"), "https://login.example.org", audience="a", claim="sub", subject="s"
    )
    client = admin.clients.create(admin.recipients.get("alice")).client
    rows = [
        used(9, alice, token, table),
        used(3, alice, token, table, kind="fetch"),
        used(2, alice, token, table, status=403),
        used(1, alice, "check-0a1b2c3d4e5f", table),
        used(5, alice, f"jwt-{policy.id}", table),
        used(7, alice, f"jwt-{client.id[4:16]}", "another"),
        used(4, "somebody", "t", table),
        used(2.5, alice, None, "another", kind="fetch"),
        used(40, alice, "long ago", table),
    ]
    deltalake.write_deltalake(str(tmp_path / "usage"), pa.Table.from_pylist(rows, SCHEMA), partition_by=["day"])
    return str(tmp_path / "usage")


def test_recipient_show_has_the_last_use_of_each_key(filled: Deltaic, usage: str) -> None:
    recipient = filled.json(f"recipient show alice --usage {usage}")
    [token], [policy], [client] = (recipient["keys"][kind] for kind in ("tokens", "policies", "clients"))
    assert [key["lastUsedAt"] for key in (token, policy, client)] == [timestamp(3), timestamp(5), timestamp(7)]
    assert recipient["lastUsedAt"] == timestamp(2.5), "a fetch that several requests may have caused"
    assert f"{NOW - timedelta(3):%Y-%m-%d %H:%M}" in filled.done(f"recipient show alice --usage {usage}")
    filled.done("token create alice")
    assert {key["lastUsedAt"] for key in filled.json(f"recipient show alice --usage {usage}")["keys"]["tokens"]} == {
        timestamp(3),
        None,
    }


def test_table_show_has_the_last_read_of_each_recipient(filled: Deltaic, usage: str, admin: CatalogAdmin) -> None:
    admin.recipients.create("bob")
    admin.grants.create("bob", "vaccine_share")
    table = filled.json(f"table show vaccine_share.acme.patients --usage {usage}")
    assert table["lastReadAt"] == timestamp(3)
    assert {recipient["recipient"]: recipient["lastReadAt"] for recipient in table["recipients"]} == {
        "alice": timestamp(3),
        "bob": None,
    }
    assert "last read" in filled.done(f"table show vaccine_share.acme.patients --usage {usage}")


def test_without_a_usage_table_no_last_uses_are_shown(filled: Deltaic, tmp_path: Path) -> None:
    assert "lastUsedAt" not in filled.json("recipient show alice")
    assert "--usage" in filled("recipient show alice").stderr
    (tmp_path / "cut" / "_delta_log").mkdir(parents=True)
    (tmp_path / "cut" / "_delta_log" / f"{0:020}.json").write_text("{")
    cut = filled(f"table show vaccine_share.acme.patients --no-look --usage {tmp_path}/cut")
    assert (cut.exit_code, "cannot read the usage table" in cut.stderr) == (0, True), cut.output
    missing = filled(f"recipient show alice --usage {tmp_path}/none")
    assert (missing.exit_code, "deltaic usage collect" in missing.stderr) == (0, True)
