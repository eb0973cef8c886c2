"""What recipients read of a view through the published client is its SQL, said for each of them; and nothing else is.

Snapshots, every version, change feed; after every refresh, whatever happened to source, properties and grants, and also
after one that was killed half-way. One story in every run of the tests; `DELTAIC_VIEWS=10` tells as many.
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
from deltaic_pipeline.table.catalog_entry import Catalog
from deltaic_pipeline.table.catalog_entry import connect as connect_catalog
from deltaic_pipeline.view_refresh.catalog_session import begin, definition_of
from deltaic_pipeline.view_refresh.refresh import refresh
from deltaic_pipeline.view_refresh.view_sql import read_sql
from deltaic_pipeline.views import refresh_view
from filled_server import FilledServer, dynamo_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from views.made import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOLD = int(os.environ.get("DELTAIC_VIEWS", "1"))
STEPS = 2 if TOLD == 1 else 4
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
    """A provider with a source that nobody may read, a view of it, and recipients."""

    spark: "SparkSession"
    admin: CatalogAdmin
    catalog: Catalog
    endpoint: str
    folder: Path
    sql: str
    name: str
    people: dict[str, Recipient] = field(default_factory=dict)
    expected: dict[str, dict[int, Rows]] = field(default_factory=dict)
    """By recipient and version of the view, from the version on that it may see."""

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

    def welcome(self, who: str, properties: dict[str, str]) -> None:
        account = self.admin.recipients.create(f"{self.name}_{who}", properties=properties)
        self.admin.grants.create(account.name, self.name)
        issued = self.admin.tokens.create(account)
        self.people[who] = Recipient(self.endpoint, issued.secret)
        (self.folder / who).write_text(profile(self.endpoint, issued), encoding="utf-8")

    def properties(self, who: str) -> dict[str, str]:
        return self.admin.recipients.get(f"{self.name}_{who}").properties

    def should_see(self, who: str) -> Rows:
        """Return what the SQL says for a recipient, by plain Spark on the source as it is now."""
        session = self.spark.newSession()
        session.read.format("delta").load(f"s3a://{DATA_BUCKET}/{self.name}/source").createOrReplaceTempView("source")
        values = {name: value_of(text) for name, text in self.properties(who).items()}
        return Counter((row["id"], row["note"]) for row in session.sql(written(self.sql, values)).collect())

    def refresh(self) -> None:
        done = refresh_view(self.spark, self.view, self.catalog, "run").refreshed
        for who in self.people:
            self.expected.setdefault(who, {})[done.version] = self.should_see(who)

    def changed(self, who: str, **properties: str) -> None:
        before = self.properties(who)
        self.admin.recipients.update(f"{self.name}_{who}", add_properties=properties)
        if self.properties(who) != before:
            # Whoever becomes another sees the versions from its first refresh on, at the earliest.
            self.expected[who] = {}

    def url(self, who: str) -> str:
        return f"{self.folder / who}#{self.name}.d.mine"

    def table(self, who: str, capabilities: str) -> Table:
        return Table(self.people[who], self.name, "d", "mine").with_capabilities(capabilities)

    def check(self) -> None:
        """Read as every recipient, by the client and by plain HTTP."""
        for who, versions in self.expected.items():
            latest = versions[max(versions)]
            for delta in (False, True):
                assert rows(delta_sharing.load_as_pandas(self.url(who), use_delta_format=delta)) == latest
            for version, expected in versions.items():
                assert rows(delta_sharing.load_as_pandas(self.url(who), version=version)) == expected
            first, *others = sorted(versions)
            if others:
                changes = delta_sharing.load_table_changes_as_pandas(self.url(who), starting_version=first + 1)
                state = Counter(versions[first])
                for version in others:
                    step = changes[(changes["_commit_version"] <= version) & (changes["_commit_version"] > first)]
                    state.subtract(rows(step[step["_change_type"].isin(["delete", "update_preimage"])]))
                    assert min(state.values(), default=0) >= 0
                    state.update(rows(step[step["_change_type"].isin(["insert", "update_postimage"])]))
                    assert +state == versions[version]
                    first = version
            self.check_canaries(who)

    def check_canaries(self, who: str) -> None:
        """Look for notes that are no business of the recipient's in all that it can get, behind every URL too."""
        own = {note for state in self.expected[who].values() for _, note in state}
        urls: dict[str, str] = {}
        for reply in self.every_answer(who):
            found = {word for word in reply.body.decode().replace('\\"', '"').split('"') if word.startswith("canary")}
            assert found <= own
            if reply.status == 200:
                (metadata,) = reply.only("metaData")[:1]
                assert "_deltaic_policy" not in json.dumps(metadata)
                for line in reply.only("file", "add", "cdf", "remove"):
                    urls[data_url(line).partition("?")[0]] = data_url(line)
        for url in urls.values():
            held = pq.read_table(io.BytesIO(download(url).body), partitioning=None).to_pylist()
            assert {row["note"] for row in held if row["note"].startswith("canary")} <= own

    def every_answer(self, who: str) -> Iterator[Reply]:
        latest = max(self.expected[who])
        for capabilities in FORMATS:
            table = self.table(who, capabilities)
            for version in range(latest + 1):
                yield table.query(version=version)
                yield table.metadata(f"?version={version}")
            for version in sorted(self.expected[who]):
                yield table.changes(f"?startingVersion={version}")
                yield table.query(startingVersion=version)


def rows(frame: pd.DataFrame) -> Rows:
    return Counter((int(row.id), str(row.note)) for row in frame[["id", "note"]].itertuples(index=False))


@pytest.fixture(scope="module")
def provider(
    embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CatalogAdmin, Catalog, str]]:
    """Run the gateway over the embedded AWS that Spark writes to."""
    folder = tmp_path_factory.mktemp("views")
    with FilledServer.running(folder, aws=embedded_aws.environment) as server:
        names = server.environment["CATALOG_TABLE"], server.environment["TOKENS_TABLE"]
        yield server.admin, connect_catalog(*names, dynamo_of(server.environment)), server.endpoint


def value(site: str, number: int) -> str:
    return f"({number}, '{site}', 'canary {site} {number}')"


sites = st.sampled_from(SITES)
values = st.lists(st.builds(value, sites, st.integers(0, 12)), min_size=1, max_size=5).map(", ".join)
commits = st.one_of(
    values.map(lambda some: f"INSERT INTO {{source}} VALUES {some}"),
    st.integers(0, 12).map(lambda least: f"DELETE FROM {{source}} WHERE id = {least}"),
    st.builds(
        lambda site, least: f"UPDATE {{source}} SET site = '{site}' WHERE id >= {least}", sites, st.integers(0, 12)
    ),
    sites.map(lambda site: f"UPDATE {{source}} SET note = concat(note, '!') WHERE site = '{site}'"),
    values.map(
        lambda some: (
            "MERGE INTO {source} old USING (SELECT id, max(site) AS site, max(note) AS note FROM VALUES "
            f"{some} AS t(id, site, note) GROUP BY id) new ON old.id = new.id "
            "WHEN MATCHED THEN UPDATE SET note = new.note WHEN NOT MATCHED THEN INSERT *"
        )
    ),
)


@settings(
    max_examples=TOLD,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # a refresh takes seconds: what fails is looked at as it is
    derandomize=TOLD == 1,
)
# The simplest story of all is told first, and tells little: it does not count.
@given(data=st.data(), sql=st.sampled_from(SQLS), told=st.integers(0, 1 << 32).filter(bool))
def test_everyone_reads_the_sql_said_for_them(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    provider: tuple[CatalogAdmin, Catalog, str],
    tmp_path_factory: pytest.TempPathFactory,
    data: Any,
    sql: str,
    told: int,
) -> None:
    assert told
    shop = Shop(spark, *provider, tmp_path_factory.mktemp("shop"), sql, f"shop_{uuid4().hex[:8]}")
    shop.open(", ".join(value(site, number) for number, site in enumerate(SITES * 3)))
    listed = json.dumps(sorted(data.draw(st.sets(sites, min_size=1, max_size=2), label="sites")))
    shop.welcome("anna", {"site": "oslo", "sites": '["oslo", "bern"]'})
    shop.welcome("ben", {"site": data.draw(sites, label="site"), "sites": listed})
    shop.welcome("nobody", {"other": "oslo"})
    no_rows = shop.people.pop("nobody")
    reply = Table(shop.people["anna"], shop.name, "d", "mine").query()
    assert (reply.status, "next refresh creates them" in reply.body.decode()) == (400, True)
    shop.refresh()
    shop.check()
    for number in range(STEPS):
        for statement in data.draw(st.lists(commits, min_size=1, max_size=3), label="commits"):
            shop.run(statement)
        if data.draw(st.booleans(), label="becomes another") or number == STEPS - 1:
            shop.changed("ben", site="bern", sites='["rome", "bern"]')
        _killed_after_its_commit(shop)
        shop.refresh()
        shop.check()
    empty = Table(no_rows, shop.name, "d", "mine").query()
    assert (empty.status, empty.only("file"), empty.only("metaData")[0]["numFiles"]) == (200, [], 0)


def _killed_after_its_commit(shop: Shop) -> None:
    """Let a refresh die between the commit of its rows and the catalog: rights are as they were, or less."""
    task = begin(shop.admin, shop.view)
    refresh(
        shop.spark.newSession(),
        definition_of(shop.admin, task.view, task.table),
        task.wanted,
        task.known,
        uuid4().hex,
    )
    for who in shop.people:
        now = shop.should_see(who)
        for capabilities in FORMATS:
            reply = shop.table(who, capabilities).query()
            if reply.status == 200:
                held = [
                    row
                    for line in reply.only("file")
                    for row in pq.read_table(io.BytesIO(download(data_url(line)).body), partitioning=None).to_pylist()
                ]
                assert Counter((row["id"], row["note"]) for row in held) == now
            else:
                reply.refused(400, "UNSUPPORTED_OPERATION", "next refresh creates them")
