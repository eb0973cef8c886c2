"""Views on the command line: made, shown, changed and asked for, without Spark; refreshes are with the job's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_tables.handmade import lines, metadata, protocol
from deltaic.catalog.items import ViewPartition, now
from deltaic_ops.cli.catalog.view import sibling_location
from deltaic_ops.cli.jobs.view_updates import schedule_name

if TYPE_CHECKING:
    from pathlib import Path

    import boto3
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic_ops.local.embedded import EmbeddedAws

VIEW = "vaccine_share.acme.mine"
FROM = "--from vaccine_share.acme.patients"
NARROW = "'SELECT id FROM source'"
VALID, INVALID = "'SELECT x FROM source'", "'SELECT p, xx FROM source'"
RANDOM = "'SELECT uuid() AS u FROM source'"
JOIN = "'SELECT * FROM source JOIN {} USING (id)'"
SQL = "\"SELECT * FROM source WHERE site = current_recipient('site')\""
CREATE = f"view create {VIEW} {FROM} --sql {SQL}"
BY_HAND = f"deltaic view refresh {VIEW}"


def test_a_view_is_created_shown_updated_and_deleted(filled: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "view.sql").write_text("SELECT * FROM source WHERE site = current_recipient('site')\n")
    view = filled.json(f"view create {VIEW} {FROM} --sql @view.sql --key id --max-staleness 2h --history")
    expected = {
        "share": "vaccine_share",
        "schema": "acme",
        "name": "mine",
        "source": "vaccine_share.acme.patients",
        "sql": "SELECT * FROM source WHERE site = current_recipient('site')",
        "key": ["id"],
        "maxStaleness": 7200,
        "lastRefresh": {},
    }
    assert view | expected == view
    view_ = filled.json(f"view show {VIEW}")
    location = f"s3://bucket/patients-views/mine-{view['tableId'][:8]}"
    entry = {"location": location, "history": True, "properties": ["site"], "due": "never refreshed", "partitions": []}
    assert view_ == {**view, **entry}
    assert filled.json("view list") == filled.json("view list vaccine_share") == [view]
    [entry] = [table for table in filled.json("table list vaccine_share") if table["name"] == "mine"]
    assert (entry["location"], entry["viewProperties"], entry["history"]) == (location, ["site"], True)
    changed = filled.json(f"view update {VIEW} --no-key --max-staleness 0 --sql {NARROW}")
    assert (changed["key"], changed["maxStaleness"], changed["sql"]) == ([], 0, "SELECT id FROM source")
    assert changed["requestedAt"]
    output = filled.done(f"view delete {VIEW}")
    assert f"its files stay in {location}" in output
    assert filled.json("view list") == []
    assert "no views yet" in filled.done("view list")


def test_a_view_shows_its_recipients_and_freshness(filled: Deltaic, admin: CatalogAdmin) -> None:
    filled.done("recipient update alice --property site=Porto")
    filled.done("recipient create bob --property site=Turku")
    filled.done(CREATE)
    filled.done("grant create bob vaccine_share")
    view = admin.views.get("vaccine_share", "acme", "mine")
    before = filled.json(f"view show {VIEW}")
    assert sorted((each["recipients"], each["rows"], each["sinceVersion"]) for each in before["partitions"]) == [
        (["alice"], None, None),
        (["bob"], None, None),
    ]
    audience = next(each["audience"] for each in before["partitions"] if each["recipients"] == ["alice"])
    partition = ViewPartition(
        table_id=view.table_id, audience=audience, since_version=3, values={"site": "Porto"}, created_at=now()
    )
    admin.views.partitions.put(view, [partition])
    done = {
        "version": 3,
        "sources": {"vaccine_share.acme.patients": 12},
        "full_because": "it is the first refresh",
        "inserted": 1400,
        "updated": 0,
        "deleted": 0,
        "rows": 1400,
        "rows_by_policy": {audience: 1400},
        "bytes": 20_480,
        "recipients": 1,
        "policies": 1,
        "milliseconds": 5300,
        "versions": [{"version": 3, "sources": {"vaccine_share.acme.patients": 12}, "at": 1_800_000_000}],
    }
    admin.views.record_refresh(view, done, keep_request=True)
    admin.views.record_failure(view, "no column dose")
    output = filled.done(f"view show {VIEW}")
    for text in (
        "1,400 in 20,480 bytes",
        "all rows: it is the first refresh",
        "vaccine_share.acme.patients 12",
        "requested at",
        "no column dose",
        "site=Porto",
        "not yet",
    ):
        assert text in output
    entry = filled.json(f"view show {VIEW}")
    [current] = [each for each in entry["partitions"] if each["sinceVersion"] is not None]
    assert current == {
        "audience": audience,
        "values": {"site": "Porto"},
        "sinceVersion": 3,
        "rows": 1400,
        "recipients": ["alice"],
    }
    assert (entry["lastRefresh"]["fullBecause"], entry["lastRefresh"]["milliseconds"]) == (
        "it is the first refresh",
        5300,
    )
    listing = filled.done("view list").splitlines()
    assert listing[1].split()[0] == VIEW
    assert "requested at" in listing[1]


def test_a_change_of_rights_names_the_refresh_command(filled: Deltaic) -> None:
    filled.done(CREATE)
    assert BY_HAND in filled.done("recipient update alice --property site=Porto")
    assert BY_HAND not in filled.done("recipient update alice --comment x")
    assert BY_HAND not in filled.done("recipient create bob --property site=Porto")
    assert BY_HAND in filled.done("grant create bob vaccine_share")
    assert BY_HAND in filled.done(f"view update {VIEW} --sql {NARROW}")
    assert filled.json("recipient update alice --property site=Turku")["properties"] == {"site": "Turku"}


REFUSED = [
    (f"view create {VIEW} --from vaccine_share.acme.none --sql {SQL}", "'vaccine_share.acme.none' not found"),
    (f"view create {VIEW} {FROM} --sql {RANDOM}", "line 1"),
    (f"view create {VIEW} {FROM} --sql {JOIN.format('a.b.c')}", "a.b.c"),
    (f"view create {VIEW} {FROM} --sql {JOIN.format('vaccine_share.acme.first')}", "a view"),
    (f"view create {VIEW} --from vaccine_share.acme.first --sql {SQL}", "a view cannot read another view"),
    (f"{CREATE} --refresh hourly", "--refresh: write cron("),
    (f"{CREATE} --location s3://bucket/patients/mine", "choose a separate folder"),
    (f"view create {VIEW} --from vaccine_share.acme.whole --sql {SQL}", "add --location"),
    (f"{CREATE} --sql @nowhere.sql", "'nowhere.sql' cannot be used"),
    ("view show vaccine_share.acme.patients", "view 'vaccine_share.acme.patients' not found"),
    ("view delete vaccine_share.acme.patients", "view 'vaccine_share.acme.patients' not found"),
    ("table update vaccine_share.acme.first --location s3://bucket/x", "change the SQL with"),
    (f"view create filtered.d.v {FROM} --sql {SQL}", "into another share"),
]


def test_an_invalid_view_is_refused_with_a_remedy(filled: Deltaic, admin: CatalogAdmin) -> None:
    admin.tables.create("vaccine_share", "acme", "whole", "s3://bucket")
    admin.shares.create("filtered")
    admin.schemas.create("filtered", "d")
    admin.grants.create("alice", "filtered", partition_filter="site = 'Porto'")
    filled.done(f"view create vaccine_share.acme.first {FROM} --sql {SQL}")
    for line, message in REFUSED:
        result = filled(line)
        assert (result.exit_code, message in result.stderr) == (1, True), (line, result.stderr)
    assert [view["name"] for view in filled.json("view list")] == ["first"]


def test_columns_are_compared_with_the_logs_of_the_tables_that_can_be_read(
    filled: Deltaic, admin: CatalogAdmin, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    s3, bucket = aws_session.client("s3", endpoint_url=embedded_aws.endpoint), "viewed-lake"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="t/_delta_log/00000000000000000000.json", Body=lines([protocol(), metadata()]))
    admin.tables.create("vaccine_share", "acme", "there", f"s3://{bucket}/t")
    create = f"view create {VIEW} --from vaccine_share.acme.there --sql"
    refused = filled(f"{create} {INVALID}")
    assert (refused.exit_code, "'xx' is not a column of source" in refused.stderr) == (1, True), refused.output
    assert filled.json(f"{create} {JOIN.format('vaccine_share.acme.patients')}")["name"] == "mine"  # it has no log
    refused = filled(f"view update {VIEW} --sql {INVALID}")
    assert (refused.exit_code, "'xx' is not a column of source" in refused.stderr) == (1, True), refused.output
    assert filled.json(f"view update {VIEW} --sql {VALID}")["sql"] == "SELECT x FROM source"


def test_a_view_is_at_most_ten_years_old(filled: Deltaic) -> None:
    assert filled.json(f"{CREATE} --max-staleness 3653d")["maxStaleness"] == 315_619_200
    for line in (f"view update {VIEW}", f"view create {VIEW}_2 {FROM} --sql {SQL}"):
        refused = filled(f"{line} --max-staleness 999999w")
        assert (refused.exit_code, "0 seconds (none) to ten years (3653 days)" in refused.stderr) == (1, True)
    assert [view["maxStaleness"] for view in filled.json("view list")] == [315_619_200]
    assert filled.json(f"view show {VIEW}")["due"] == "never refreshed"


WRONG = [
    "view refresh",
    f"view refresh {VIEW} --due",
    "view refresh --due --all",
    "view refresh nothing",
    f"view update {VIEW} --key a --no-key",
    f"{CREATE} --max-staleness soon",
]


def test_invalid_options_of_a_view_are_usage_errors(nowhere: Deltaic) -> None:
    assert {line: nowhere(line).exit_code for line in WRONG} == dict.fromkeys(WRONG, 2)


def test_a_schedule_needs_deployed_jobs(filled: Deltaic) -> None:
    assert "the schedule has no effect" in filled.done(f"{CREATE} --refresh 'rate(1 hour)'")
    assert filled.json(f"view show {VIEW}")["refresh"] == "rate(1 hour)"
    assert filled.json(f"view show {VIEW}")["due"] == ""
    assert filled.json(f"view update {VIEW} --refresh ''")["refresh"] == ""


def test_names_in_other_services_contain_only_safe_characters(filled: Deltaic, admin: CatalogAdmin) -> None:
    filled.done(f"view create vaccine_share.acme.größe_1 {FROM} --sql {SQL}")
    view = admin.views.get("vaccine_share", "acme", "größe_1")
    assert schedule_name(view) == f"view-gr--e-1-{view.table_id[:8]}"
    assert (
        sibling_location("s3://lake/a/orders/", "größe 1", "0123456789") == "s3://lake/a/orders-views/gr__e_1-01234567"
    )


def test_without_due_views_spark_does_not_start(filled: Deltaic) -> None:
    assert "no view is due" in filled.done("view refresh --due")
    result = filled("view refresh vaccine_share.acme.none")
    assert (result.exit_code, "view 'vaccine_share.acme.none' not found" in result.output) == (1, True)
