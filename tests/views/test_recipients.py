"""Test that each recipient of a view reads the result of its SQL for them, through the published client.

Covers snapshots, all versions and the change feed after random changes of source, properties and grants, and after a
refresh that was killed. Every run of the tests has one story; `DELTAIC_VIEWS=10` runs ten.
"""

# ruff: noqa: S608 -- the statements of a test
import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import delta_sharing
import pandas as pd
import pyarrow.parquet as pq
import pytest
from contract.recipient import Recipient, Reply, Table, data_url, download
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.partition_filters.properties import value_of
from deltaic.sign_in.activation import profile
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.catalog_entry import connect as connect_catalog
from deltaic_pipeline.view_refresh.catalog_session import definition_of, start_task
from deltaic_pipeline.view_refresh.refresh import refresh
from deltaic_pipeline.view_refresh.view_sql import read_sql
from deltaic_pipeline.views import refresh_view
from filled_server import FilledServer, dynamo_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from views.made import sql_with_literals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

STORIES = int(os.environ.get("DELTAIC_VIEWS", "1"))
STEPS = 1 if STORIES == 1 else 4
SITES = ("oslo", "rome", "bern")
FORMATS = ("responseformat=parquet", "responseformat=delta;readerfeatures=deletionvectors,columnmapping")
SQLS = (
    "SELECT id, note FROM source WHERE site = current_recipient('site')",
    "SELECT id, CASE WHEN site = current_recipient('site') THEN note ELSE 'masked' END AS note FROM source",
    "SELECT id, note FROM source WHERE site IN current_recipient('sites') AND id % 2 = 0",
    "SELECT min(id) AS id, max(note) AS note FROM source WHERE site = current_recipient('site') GROUP BY id % 3",
)
Rows = Counter[tuple[int, str]]


@dataclass
class Shop:
    """A provider with an unshared source, a view of it, and recipients."""

    spark: "SparkSession"
    admin: CatalogAdmin
    catalog: JobCatalog
    endpoint: str
    folder: Path
    sql: str
    name: str
    recipients: dict[str, Recipient] = field(default_factory=dict)
    expected: dict[str, dict[int, Rows]] = field(default_factory=dict)
    """Expected rows by recipient and version of the view, from the first version that the recipient can read."""

    @property
    def source(self) -> str:
        return f"delta.`s3a://{DATA_BUCKET}/{self.name}/source`"

    @property
    def view(self) -> Any:
        return self.admin.views.get(self.name, "d", "mine")

    def run(self, statement: str) -> None:
        self.spark.sql(statement.replace("{source}", self.source))

    def open(self, rows: str) -> None:
        self.run(
            "CREATE TABLE {source} (id INT, site STRING, note STRING) USING delta PARTITIONED BY (site) "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        self.run(f"INSERT INTO {{source}} VALUES {rows}")
        for share in (self.name, f"{self.name}_raw"):
            self.admin.shares.create(share)
            self.admin.schemas.create(share, "d")
        raw = f"{self.name}_raw.d.source"
        self.admin.tables.create(f"{self.name}_raw", "d", "source", f"s3://{DATA_BUCKET}/{self.name}/source")
        location = f"s3://{DATA_BUCKET}/{self.name}/view"
        used = sorted(read_sql(self.sql, raw).properties)
        self.admin.views.create(
            self.name, "d", "mine", location, source=raw, sql=self.sql, properties=used, history=True
        )

    def add_recipient(self, recipient: str, properties: dict[str, str]) -> None:
        account = self.admin.recipients.create(f"{self.name}_{recipient}", properties=properties)
        self.admin.grants.create(account.name, self.name)
        issued = self.admin.tokens.create(account)
        self.recipients[recipient] = Recipient(self.endpoint, issued.secret)
        (self.folder / recipient).write_text(profile(self.endpoint, issued), encoding="utf-8")

    def properties(self, recipient: str) -> dict[str, str]:
        return self.admin.recipients.get(f"{self.name}_{recipient}").properties

    def expected_rows(self, recipient: str) -> Rows:
        """Return the result of the SQL for a recipient, by plain Spark over the current source."""
        session = self.spark.newSession()
        session.read.format("delta").load(f"s3a://{DATA_BUCKET}/{self.name}/source").createOrReplaceTempView("source")
        values = {name: value_of(text) for name, text in self.properties(recipient).items()}
        return Counter((row["id"], row["note"]) for row in session.sql(sql_with_literals(self.sql, values)).collect())

    def refresh(self) -> None:
        result = refresh_view(self.spark, self.view, self.catalog, "run").refreshed
        for recipient in self.recipients:
            self.expected.setdefault(recipient, {})[result.version] = self.expected_rows(recipient)

    def change_properties(self, recipient: str, **properties: str) -> None:
        before = self.properties(recipient)
        self.admin.recipients.update(f"{self.name}_{recipient}", add_properties=properties)
        if self.properties(recipient) != before:
            # With changed properties, a recipient can read versions from the next refresh on at the earliest.
            self.expected[recipient] = {}

    def url(self, recipient: str) -> str:
        return f"{self.folder / recipient}#{self.name}.d.mine"

    def table(self, recipient: str, capabilities: str) -> Table:
        return Table(self.recipients[recipient], self.name, "d", "mine").with_capabilities(capabilities)

    def check(self) -> None:
        """Read the view as each recipient, with the client and with plain HTTP."""
        for recipient, versions in self.expected.items():
            latest = versions[max(versions)]
            for delta in (False, True):
                assert rows(delta_sharing.load_as_pandas(self.url(recipient), use_delta_format=delta)) == latest
            for version, expected in versions.items():
                assert rows(delta_sharing.load_as_pandas(self.url(recipient), version=version)) == expected
            first, *later_versions = sorted(versions)
            if later_versions:
                changes = delta_sharing.load_table_changes_as_pandas(self.url(recipient), starting_version=first + 1)
                state = Counter(versions[first])
                for version in later_versions:
                    step = changes[(changes["_commit_version"] <= version) & (changes["_commit_version"] > first)]
                    state.subtract(rows(step[step["_change_type"].isin(["delete", "update_preimage"])]))
                    assert min(state.values(), default=0) >= 0
                    state.update(rows(step[step["_change_type"].isin(["insert", "update_postimage"])]))
                    assert +state == versions[version]
                    first = version
            self.check_canaries(recipient)

    def check_canaries(self, recipient: str) -> None:
        """Check that no answer to a recipient, and no file behind a URL, has other recipients' notes."""
        permitted = {note for state in self.expected[recipient].values() for _, note in state}
        urls: dict[str, str] = {}
        for reply in self.every_answer(recipient):
            notes = {word for word in reply.body.decode().replace('\\"', '"').split('"') if word.startswith("canary")}
            assert notes <= permitted
            if reply.status == 200:
                (metadata,) = reply.only("metaData")[:1]
                assert "_deltaic_policy" not in json.dumps(metadata)
                for line in reply.only("file", "add", "cdf", "remove"):
                    urls[data_url(line).partition("?")[0]] = data_url(line)
        for url in urls.values():
            file_rows = pq.read_table(io.BytesIO(download(url).body), partitioning=None).to_pylist()
            assert {row["note"] for row in file_rows if row["note"].startswith("canary")} <= permitted

    def every_answer(self, recipient: str) -> Iterator[Reply]:
        latest = max(self.expected[recipient])
        for capabilities in FORMATS:
            table = self.table(recipient, capabilities)
            for version in range(latest + 1):
                yield table.query(version=version)
                yield table.metadata(f"?version={version}")
            for version in sorted(self.expected[recipient]):
                yield table.changes(f"?startingVersion={version}")
                yield table.query(startingVersion=version)


def rows(frame: pd.DataFrame) -> Rows:
    return Counter((int(row.id), str(row.note)) for row in frame[["id", "note"]].itertuples(index=False))


@pytest.fixture(scope="module")
def provider(
    embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CatalogAdmin, JobCatalog, str]]:
    """Run the server on the embedded AWS to which Spark writes."""
    folder = tmp_path_factory.mktemp("views")
    with FilledServer.running(folder, aws=embedded_aws.environment) as server:
        names = server.environment["CATALOG_TABLE"], server.environment["TOKENS_TABLE"]
        yield server.admin, connect_catalog(*names, dynamo_of(server.environment)), server.endpoint


def value(site: str, number: int) -> str:
    return f"({number}, '{site}', 'canary {site} {number}')"


sites = st.sampled_from(SITES)
values = st.lists(st.builds(value, sites, st.integers(0, 12)), min_size=1, max_size=5).map(", ".join)
commits = st.one_of(
    values.map(lambda new_rows: f"INSERT INTO {{source}} VALUES {new_rows}"),
    st.integers(0, 12).map(lambda least: f"DELETE FROM {{source}} WHERE id = {least}"),
    st.builds(
        lambda site, least: f"UPDATE {{source}} SET site = '{site}' WHERE id >= {least}", sites, st.integers(0, 12)
    ),
    sites.map(lambda site: f"UPDATE {{source}} SET note = concat(note, '!') WHERE site = '{site}'"),
    values.map(
        lambda new_rows: (
            "MERGE INTO {source} old USING (SELECT id, max(site) AS site, max(note) AS note FROM VALUES "
            f"{new_rows} AS t(id, site, note) GROUP BY id) new ON old.id = new.id "
            "WHEN MATCHED THEN UPDATE SET note = new.note WHEN NOT MATCHED THEN INSERT *"
        )
    ),
)


@settings(
    max_examples=STORIES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # a refresh takes seconds, so failures are not shrunk
    derandomize=STORIES == 1,
)
# Hypothesis tries the simplest story first, which shows little, so it is filtered out.
@given(data=st.data(), sql=st.sampled_from(SQLS), seed=st.integers(0, 1 << 32).filter(bool))
def test_each_recipient_reads_the_result_of_the_sql_for_them(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    provider: tuple[CatalogAdmin, JobCatalog, str],
    tmp_path_factory: pytest.TempPathFactory,
    data: Any,
    sql: str,
    seed: int,
) -> None:
    assert seed
    shop = Shop(spark, *provider, tmp_path_factory.mktemp("shop"), sql, f"shop_{uuid4().hex[:8]}")
    shop.open(", ".join(value(site, number) for number, site in enumerate(SITES * 3)))
    site_list = json.dumps(sorted(data.draw(st.sets(sites, min_size=1, max_size=2), label="sites")))
    shop.add_recipient("anna", {"site": "oslo", "sites": '["oslo", "bern"]'})
    shop.add_recipient("ben", {"site": data.draw(sites, label="site"), "sites": site_list})
    shop.add_recipient("nobody", {"other": "oslo"})
    no_rows = shop.recipients.pop("nobody")
    reply = Table(shop.recipients["anna"], shop.name, "d", "mine").query()
    assert (reply.status, "next refresh creates them" in reply.body.decode()) == (400, True)
    shop.refresh()
    shop.check()
    for number in range(STEPS):
        for statement in data.draw(st.lists(commits, min_size=1, max_size=3), label="commits"):
            shop.run(statement)
        if data.draw(st.booleans(), label="becomes another") or number == STEPS - 1:
            shop.change_properties("ben", site="bern", sites='["rome", "bern"]')
        _kill_refresh_after_commit(shop)
        shop.refresh()
        shop.check()
    empty = Table(no_rows, shop.name, "d", "mine").query()
    assert (empty.status, empty.only("file"), empty.only("metaData")[0]["numFiles"]) == (200, [], 0)


def _kill_refresh_after_commit(shop: Shop) -> None:
    """Kill a refresh between its commit and the catalog, and check that recipients have no more rights than before."""
    task = start_task(shop.admin, shop.view)
    refresh(
        shop.spark.newSession(),
        definition_of(shop.admin, task.view, task.table),
        task.audiences,
        task.existing,
        uuid4().hex,
    )
    for recipient in shop.recipients:
        expected = shop.expected_rows(recipient)
        for capabilities in FORMATS:
            reply = shop.table(recipient, capabilities).query()
            if reply.status == 200:
                file_rows = [
                    row
                    for line in reply.only("file")
                    for row in pq.read_table(io.BytesIO(download(data_url(line)).body), partitioning=None).to_pylist()
                ]
                assert Counter((row["id"], row["note"]) for row in file_rows) == expected
            else:
                reply.refused(400, "UNSUPPORTED_OPERATION", "next refresh creates them")
