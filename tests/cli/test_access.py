"""Access reports use the code that answers recipients, and each denial has its own message."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from deltaic.catalog.reader import Admit, CatalogReader, GrantedTable
from deltaic.errors import TooManyRequests
from deltaic.sharing.caller import RequestedTable
from deltaic_ops.rights.access_report import AccessRequest, access_of

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

ORDERS = "sales.europe.orders"


@pytest.fixture
def shared(deltaic: Deltaic) -> Deltaic:
    for line in (
        "share create sales",
        "schema create sales.europe",
        "table create sales.europe.orders --location s3://deltaic-lake/orders --history --start-version 3 --unchecked",
        "recipient create alice --property country=PL",
        "recipient create bob",
        "grant create alice sales",
    ):
        deltaic.done(line)
    return deltaic


def rule(deltaic: Deltaic, line: str) -> str:
    """Return why not."""
    result = deltaic(f"access {line} --json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["allowed"]) == (1, False)
    return str(report["rule"])


def test_a_recipient_with_a_grant_is_listed_as_a_reader_of_the_table(shared: Deltaic) -> None:
    result = shared.json(f"access alice {ORDERS.upper()}")
    assert result == {
        "recipient": "alice",
        "table": ORDERS,
        "allowed": True,
        "rule": "grant of share 'sales': all rows",
        "rowFilters": [],
        "lackedProperties": [],
        "hiddenColumns": [],
        "accessModes": ["url"],
        "firstVersion": 3,
        "endsAt": None,
    }
    assert "yes" in shared.done(f"access alice {ORDERS}")


def test_access_shows_filters_expiry_and_missing_properties(shared: Deltaic, admin: CatalogAdmin) -> None:
    end = datetime.now(UTC) + timedelta(days=3)
    rows = "country = current_recipient('country') AND site IN current_recipient('sites')"
    admin.shares.create("trial")
    admin.schemas.create("trial", "a")
    admin.tables.create("trial", "a", "t", "s3://deltaic-lake/t", partition_filter=rows)
    shared.done(f"grant create alice trial --ends {end:%Y-%m-%d}")
    result = shared.json("access alice trial.a.t")
    assert (result["rowFilters"], result["lackedProperties"]) == ([rows], ["sites"])
    assert "no rows, because the recipient does not have these properties: sites" in result["rule"]
    assert (result["accessModes"], result["endsAt"]) == (["url"], f"{end:%Y-%m-%d}T00:00:00Z")
    assert "; missing properties: sites" in shared.done("recipient show alice")
    shared.done("recipient update alice --property sites=[]")
    assert shared.json("access alice trial.a.t")["lackedProperties"] == ["sites"], "an empty list is none"


def test_a_list_property_is_missing_where_a_single_value_is_compared(shared: Deltaic, admin: CatalogAdmin) -> None:
    admin.recipients.update("bob", add_properties={"country": '["PL", "DE"]'})
    admin.tables.create("sales", "europe", "parted", "s3://deltaic-lake/parted", partition_filter="c = 1")
    admin.grants.create("bob", "sales", partition_filter="country IN current_recipient('country')")
    assert shared.json("access bob sales.europe.parted")["lackedProperties"] == []
    admin.grants.update("bob", "sales", partition_filter="NOT (country = current_recipient('country') OR p = 1)")
    assert shared.json("access bob sales.europe.parted")["lackedProperties"] == ["country"]


def test_expired_recipients_and_grants_are_shown_as_expired(shared: Deltaic, admin: CatalogAdmin) -> None:
    admin.recipients.create("late")
    warned = shared.json("grant create late sales --ends 2020-01-01")["warnings"]
    assert "the grant has already ended" in warned[0]
    assert "deltaic grant update late sales --ends" in shared.done("recipient show late")
    admin.recipients.update("late", ends_at=datetime(2020, 1, 1, tzinfo=UTC))
    output = shared("recipient show late")
    assert "the access of 'late' ended at 2020-01-01 00:00 UTC: its requests are rejected" in output.output
    assert shared("access late sales.europe.orders --from nowhere").exit_code == 2


def test_each_denied_access_names_its_rule(shared: Deltaic) -> None:
    assert rule(shared, f"bob {ORDERS}") == "'bob' has no grant of share 'sales'"
    assert rule(shared, "alice sales.europe.visits") == "table 'sales.europe.visits' not found"
    assert rule(shared, "alice sales.asia.orders") == "schema 'sales.asia' not found"
    assert rule(shared, "alice nothing.europe.orders") == "share 'nothing' not found"
    shared.done("recipient update alice --address 203.0.113.0/24")
    assert "198.51.100.1 is not an allowed address of 'alice': 203.0.113.0/24" in rule(
        shared, f"alice {ORDERS} --from 198.51.100.1"
    )
    assert shared.json(f"access alice {ORDERS}")["allowed"]
    assert shared.json(f"access alice {ORDERS} --from 203.0.113.9")["allowed"]
    shared.done("grant update alice sales --ends 2020-01-01")
    assert rule(shared, f"alice {ORDERS}") == "the grant of share 'sales' ended at 2020-01-01 00:00 UTC"
    shared.done("recipient update alice --ends 2020-02-01")
    assert rule(shared, f"alice {ORDERS}") == "the access of 'alice' ended at 2020-02-01 00:00 UTC"
    shared.done("recipient cut-off alice --yes")
    assert rule(shared, f"alice {ORDERS}").startswith("'alice' was cut off at 20")
    assert "nobody" in shared(f"access nobody {ORDERS}").output


def test_recipient_show_lists_tables_and_keys(shared: Deltaic, admin: CatalogAdmin) -> None:
    shared.done("token create alice --expires 30d")
    shared.done("recipient invite alice --endpoint https://shares.example.org")
    shared.done("share create other")
    shared.done("schema create other.a")
    shared.done("table create other.a.hidden --location s3://deltaic-lake/h --unchecked")
    result = shared.json("recipient show alice")
    keys = {kind: [entry["recipient"] for entry in entries] for kind, entries in result["keys"].items()}
    assert (result["name"], keys) == ("alice", {"tokens": ["alice"], "links": ["alice"], "clients": [], "policies": []})
    assert result["keys"]["tokens"][0]["state"] == "live"
    assert [entry["kind"] for entry in result["endsSoon"]] == ["link", "token"]
    output = shared.done("recipient show alice")
    assert result["keys"]["links"][0]["id"] in output
    assert f"token {result['keys']['tokens'][0]['id']} 20" in output
    assert result["tables"] == [
        {
            "table": ORDERS,
            "accessModes": ["url"],
            "rowFilters": [],
            "ownRows": False,
            "refreshedAt": None,
            "hiddenColumns": [],
            "lackedProperties": [],
            "refused": "",
            "firstVersion": 3,
            "iceberg": "",
            "endsAt": None,
        }
    ]
    assert (result["assets"], result["more"]) == ([], False)
    admin.volumes.create("sales", "europe", "scans", "s3://deltaic-lake/scans", access_modes=["url"])
    shared.done("model create sales.europe.churn")
    assert shared.json("recipient show alice")["assets"] == [
        {"kind": "volume", "name": "sales.europe.scans", "accessModes": ["url"]},
        {"kind": "model", "name": "sales.europe.churn", "accessModes": []},
    ]
    assert "sales.europe.churn" in shared.done("recipient show alice")
    for number in range(100):
        admin.tables.create("sales", "europe", f"n{number:02}", f"s3://deltaic-lake/n{number}")
    assert len(shared.json("recipient show alice")["tables"]) == 100
    assert "showing the first 100" in shared("recipient show alice").stderr
    assert len(shared.json("recipient show alice --all")["tables"]) == 101
    assert "no tables" in shared("recipient show bob").stderr


def test_share_show_and_table_show_list_recipients(shared: Deltaic) -> None:
    shared.done("grant create bob sales --ends 2020-01-01")
    alice = {"recipient": "alice", "partitionFilter": "", "endsAt": None}
    result = shared.json("share show sales")
    assert (result["recipients"], result["more"]) == ([alice], False)
    assert "all that are shared" in shared.done("share show sales")
    result = shared.json(f"table show {ORDERS}")
    assert (result["recipients"], result["more"]) == ([{**alice, "rowFilters": []}], False)
    assert "alice      all" in shared.done(f"table show {ORDERS}")
    shared.done("grant update bob sales --ends never")
    assert {recipient["recipient"] for recipient in shared.json("share show sales")["recipients"]} == {"alice", "bob"}
    shared.done("share create alone")
    assert "no recipients" in shared("share show alone").stderr


def test_table_show_lists_the_row_filters_of_each_recipient(shared: Deltaic, admin: CatalogAdmin) -> None:
    rows = "region IN current_recipient('regions')"
    admin.tables.create("sales", "europe", "visits", "s3://deltaic-lake/visits", partition_filter=rows)
    admin.grants.create("bob", "sales", partition_filter="team = 'north'")
    filters = {
        recipient["recipient"]: recipient["rowFilters"]
        for recipient in shared.json("table show sales.europe.visits")["recipients"]
    }
    assert filters == {"alice": [rows], "bob": [rows, "team = 'north'"]}
    assert f"({rows}) and (team = 'north')" in shared.done("table show sales.europe.visits")


def test_a_view_is_shown_with_its_freshness(shared: Deltaic, admin: CatalogAdmin) -> None:
    sql = "SELECT id FROM source WHERE country = current_recipient('country')"
    path = ("sales", "europe", "mine")
    view = admin.views.create(*path, "s3://deltaic-lake/mine", source=ORDERS, sql=sql, properties=["country"])
    [mine] = [table for table in shared.json("recipient show alice")["tables"] if table["table"] == "sales.europe.mine"]
    assert (mine["ownRows"], mine["refreshedAt"]) == (True, None)
    assert "has no rows for you yet" in mine["refused"]
    assert "has no rows for you yet" in shared.done("recipient show alice")
    assert "has no rows for you yet" in rule(shared, "alice sales.europe.mine")
    admin.grants.create("bob", "sales")
    # Before the first refresh, no recipient has rows, even one who lacks the property.
    assert "has no rows for you yet" in shared.done("recipient show bob")
    admin.views.record_refresh(view, {"version": 0}, keep_request=False)
    result = shared.json("access bob sales.europe.mine")
    assert (result["rowFilters"], result["lackedProperties"]) == ([], ["country"])
    assert "none; missing properties: country" in shared.done("recipient show bob")
    admin.grants.revoke("bob", "sales")
    [mine] = [table for table in shared.json("recipient show alice")["tables"] if table["table"] == "sales.europe.mine"]
    assert mine["refreshedAt"] is not None
    assert "has no rows for you yet" in mine["refused"]  # new recipients wait for the next refresh


def test_a_hidden_table_shows_its_reason(shared: Deltaic, admin: CatalogAdmin) -> None:
    followed = admin.tables.update("sales", "europe", "orders", followed=True)
    admin.tables.set_listed(followed, "its log has a gap")
    assert rule(shared, f"alice {ORDERS}") == f"table '{ORDERS}' is hidden from recipients: its log has a gap"
    assert shared.json("recipient show alice")["tables"] == []


class Throttled(CatalogReader):
    """A catalog that cannot be asked now."""

    def with_admission(self, admit: Admit) -> Throttled:  # noqa: ARG002 -- nobody is let in
        return self

    def get_table(self, *_: str) -> GrantedTable:
        raise TooManyRequests("the catalog is throttled")


def test_a_failed_request_is_not_reported_as_a_rule(shared: Deltaic, admin: CatalogAdmin) -> None:
    request = AccessRequest(
        admin.recipients.get("alice"), RequestedTable("sales", "europe", "orders"), datetime.now(UTC)
    )
    with pytest.raises(TooManyRequests):
        access_of(admin, Throttled(shared.variables["CATALOG_TABLE"]), request)
