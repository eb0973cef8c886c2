"""Test random deliveries with failures: tables, quarantine, counts and feeds agree with plain Python.

After every run, recipients read the table, a filtered table and a view with the published client, and change feeds are
compared with the difference of the versions. `DELTAIC_LONG` runs two stories. `DELTAIC_STORIES=300` runs 300, from the
seed `DELTAIC_STORY_SEED` on.
"""

import csv
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import delta_sharing
import numpy as np
import pandas as pd
import pytest
from botocore.config import Config
from datasets.death import living
from datasets.files import dataset, run_of
from datasets.stories import COLUMNS, OP, Counted, Delivery, Refused, Rows, Story, counted, schema_of, story, write_file
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.errors import DeltaicError
from deltaic.sign_in.activation import profile
from deltaic_datasets.run.batch import build
from deltaic_datasets.run.run_state import RunSummary
from deltaic_ops.local.embedded import EmbeddedAws
from deltaic_ops.local.resources import connect
from deltaic_pipeline.table.catalog_entry import JobCatalog
from deltaic_pipeline.table.catalog_entry import connect as connect_catalog
from deltaic_pipeline.views import refresh_view
from deltaic_terminal.progress import silent
from deltalake import DeltaTable
from faults.proxy import Proxy
from filled_server import FilledServer, dynamo_of
from held_lease import held_lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(36_000),
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
        "ignore:The behavior of DataFrame concatenation:FutureWarning",
    ),
]

STORIES = int(os.environ.get("DELTAIC_STORIES", "2"))
FIRST_SEED = int(os.environ.get("DELTAIC_STORY_SEED", "1"))
FED = ("_change_type", "_commit_version", "_commit_timestamp")
GAINED, REMOVED = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass
class Server:
    """The gateway over the embedded AWS; jobs use a proxy that can simulate their death."""

    spark: "SparkSession"
    admin: CatalogAdmin
    leases: Leases
    catalog: JobCatalog
    mortal: JobCatalog
    """The catalog behind the proxy."""

    proxy: Proxy
    endpoint: str
    environment: Mapping[str, str]


@dataclass
class Reader:
    """A recipient, with the rows that she must have read at each version."""

    url: str
    site: str | None
    """The recipient reads the rows of this site; None for all rows."""

    versions: dict[int, Rows] = field(default_factory=dict)

    def sees(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [row for row in rows if self.site is None or row["site"] == self.site]


@dataclass
class Play:
    """A story with its table, shared with two recipients, and a view for two others."""

    server: Server
    story: Story
    folder: Path
    name: str
    readers: dict[str, Reader] = field(default_factory=dict)
    viewers: dict[str, Reader] = field(default_factory=dict)

    @property
    def location(self) -> str:
        return f"s3://stories/{self.name}"

    def open(self) -> None:
        """Create shares and recipients; in a partitioned table, one recipient gets the rows of one site."""
        admin = self.server.admin
        for share in (self.name, f"{self.name}_v"):
            admin.shares.create(share)
            admin.schemas.create(share, "d")
        self.readers["all"] = self._welcome("all", None, self.name, "")
        if self.story.partitioned:
            self.readers["oslo"] = self._welcome("oslo", "oslo", self.name, "site = current_recipient('site')")

    def open_view(self) -> None:
        sql = "SELECT id, site, dose, note FROM source WHERE site = current_recipient('site')"
        sql += " AND is_current" if self.story.mode == "scd2" else ""
        self.server.admin.views.create(
            f"{self.name}_v",
            "d",
            "t",
            f"{self.location}_view",
            source=f"{self.name}.d.t",
            sql=sql,
            properties=["site"],
            key=["id"] if self.story.keyed else [],
            history=True,
        )
        for site in ("oslo", "rome"):
            self.viewers[site] = self._welcome(f"v_{site}", site, f"{self.name}_v", "")

    def _welcome(self, who: str, site: str | None, share: str, rows: str) -> Reader:
        admin = self.server.admin
        account = admin.recipients.create(f"{self.name}_{who}", properties={"site": site or ""})
        admin.grants.create(account.name, share, partition_filter=rows)
        file = self.folder / f"{who}.share"
        file.write_text(profile(self.server.endpoint, admin.tokens.create(account)), encoding="utf-8")
        return Reader(f"{file}#{share}.d.t", site)

    def run(self, number: int, delivery: Delivery, more: str = "") -> RunSummary:
        """Run the dataset over a delivery; a killed run is repeated with its id."""
        suffix = self.story.format
        options = write_file(delivery, suffix, self.folder / f"day{number}.{suffix}")
        os.utime(self.folder / f"day{number}.{suffix}", ns=(number, number))  # the file of the first attempt
        keyed = {"keys": ["id"]} if self.story.keyed else {}
        states = {"at": "at"} if self.story.mode == "scd2" else {}
        deletes = {"delete_when": "op = 'D'"} if self.story.deletes else {}
        full = {"delete_missing": True, "at_most": self.story.at_most} if self.story.full else {}
        run = run_of(
            dataset(
                self.location,
                sources={
                    "arrivals": {
                        "format": suffix,
                        "paths": [str(self.folder / f"day{number}.{suffix}")],
                        "schema": schema_of(delivery),
                        "malformed": self.story.malformed,
                        "options": options,
                    }
                },
                write={"mode": self.story.mode, **keyed, **states, **deletes, **full},
                target={
                    "share": f"{self.name}.d.t",
                    "evolve_schema": self.story.evolves,
                    "partition_by": ["site"] if self.story.partitioned else [],
                },
                expectations=[dict(item.fields) for item in self.story.expected],
            ),
            f"day-{number}{more}",
        )
        if delivery.killed and not more:
            with living(self.server.proxy, 1 + (self.story.seed * 7 + number * 11) % 30), suppress(DeltaicError):
                build(self.server.spark, run, self.server.mortal, silent)
            self._bury()
        return build(self.server.spark, run, self.server.catalog, silent)

    def _bury(self) -> None:
        """Release locks and state of the dead job, as the end of its process and its leases would."""
        for place in (self.location, f"{self.location}_quarantine"):
            lease = held_lease(self.server.leases, place)
            if lease is not None:
                self.server.leases.release(place, lease.holder)
        jvm: Any = self.server.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def check_quarantine(self) -> None:
        """Compare the quarantine table, read by deltalake; recipients read the table itself."""
        if not self.story.aside:
            return
        options = {**self.server.environment, "AWS_ALLOW_HTTP": "true"}
        quarantined = DeltaTable(f"{self.location}_quarantine", storage_options=options).to_pandas()
        names = {*COLUMNS, OP, "extra", "_raw"}
        rows = [
            {**{name: value for name, value in row.items() if name in names}, "reasons": tuple(sorted(row["_reasons"]))}
            for row in plain_rows(quarantined)
        ]
        expected = [{**row, "reasons": tuple(sorted(reasons))} for row, reasons in self.story.aside]
        if self.story.format == "csv":  # Spark writes the row as CSV with quotes only where necessary
            for row in (*rows, *expected):
                if row.get("_raw") is not None:
                    row["_raw"] = tuple(next(csv.reader([row["_raw"]], delimiter=";")))
        assert counted(rows) == counted(expected), self.story

    def check_readers(self) -> None:
        keys = ("id", "valid_from") if self.story.mode == "scd2" else ("id",)
        for reader in self.readers.values():
            # If a merge updates rows on both sides of a filter, recipients of one side get complete files.
            exact = self.story.keyed and reader.site is None
            self._check(reader, reader.sees(self.story.table), keys, exact=exact)

    def check_viewers(self) -> None:
        current = [row for row in self.story.table if row.get("is_current", True)]
        current = [{name: row[name] for name in ("id", "site", "dose", "note")} for row in current]
        for reader in self.viewers.values():
            self._check(reader, reader.sees(current), ("id",) if self.story.keyed else (), exact=True)

    def _check(self, reader: Reader, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], *, exact: bool) -> None:
        description = f"{self.story}, {reader.url.partition('#')[0].rpartition('/')[2]}"
        after = counted(rows)
        latest = (
            delta_sharing.SharingClient(reader.url.partition("#")[0])
            ._rest_client.query_table_version(_table(reader.url))
            .delta_table_version
        )
        for delta in (False, True):
            assert counted(plain_rows(delta_sharing.load_as_pandas(reader.url, use_delta_format=delta))) == after, (
                description
            )
        last_read = max(reader.versions, default=-1)
        before = reader.versions.get(last_read, Counter())
        reader.versions[latest] = after
        if latest == last_read:
            assert before == after, description
            return
        if last_read < 0:
            return
        for delta in (False, True):
            feed = plain_rows(
                delta_sharing.load_table_changes_as_pandas(
                    reader.url, starting_version=last_read + 1, ending_version=latest, use_delta_format=delta
                )
            )
            check_feed(
                feed,
                before,
                after,
                keys,
                exact=exact,
                description=f"{description}, versions {last_read + 1} to {latest}",
            )


def _table(url: str) -> delta_sharing.protocol.Table:
    share, schema, name = url.partition("#")[2].split(".")
    return delta_sharing.protocol.Table(name, share, schema)


def check_feed(
    feed: Sequence[Mapping[str, Any]], before: Rows, after: Rows, keys: Sequence[str], *, exact: bool, description: str
) -> None:
    """Compare a feed with the difference of two versions.

    With `exact`, the feed deletes and inserts no identical row, and a row with unchanged keys is an update. If some of
    several equal rows are removed, the feed may delete all of them and insert the rest again.
    """

    def those(*kinds: str) -> Rows:
        chosen = [row for row in feed if row["_change_type"] in kinds]
        return counted({name: row[name] for name in row if name not in FED} for row in chosen)

    gained, removed = those(*GAINED), those(*REMOVED)
    state = Counter(before)
    state.subtract(removed)
    assert min(state.values(), default=0) >= 0, f"{description}: rows are lost that were not there: {removed - before}"
    state.update(gained)
    assert +state == after, f"{description}: not by the feed {after - state}, only by the feed {state - after}"
    if not exact:
        return
    for row in gained.keys() & removed.keys():
        assert not keys, f"{description}: a row is lost and gained again: {row}"
        assert (before[row], after[row]) == (removed[row], gained[row]), f"{description}: {row}"
    if keys:
        gained_keys, lost_keys = ({_key(row, keys) for row in rows} for rows in (gained, removed))
        updated = {_key(row, keys) for row in those("update_preimage", "update_postimage")}
        assert updated == gained_keys & lost_keys, f"{description}: updates are told of {updated}"
        divided = {_key(row, keys) for row in those("insert", "delete")}
        assert divided == gained_keys ^ lost_keys, f"{description}: inserted and deleted are {divided}"


def _key(row: tuple[tuple[str, Any], ...], keys: Sequence[str]) -> tuple[Any, ...]:
    values = dict(row)
    return tuple(values.get(key) for key in keys)


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as plain values; pandas turns integers with nulls into doubles."""

    def value(item: Any) -> Any:
        if item is None or item is pd.NaT or (isinstance(item, float) and item != item):  # noqa: PLR0124 -- NaN
            return None
        if isinstance(item, pd.Timestamp):
            return item.tz_localize(None).to_pydatetime() if item.tz is None else item.tz_convert(None).to_pydatetime()
        if isinstance(item, float):
            return int(item)
        return item.item() if isinstance(item, np.generic) else item

    return [{name: value(item) for name, item in row.items()} for row in frame.to_dict("records")]


@pytest.fixture(scope="module")
def server(
    spark: "SparkSession", embedded_aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder, aws = tmp_path_factory.mktemp("stories"), embedded_aws.environment
    with (
        FilledServer.running(folder, aws=aws, variables={"SIGNING_ROLE_ARN": ""}) as running,
        Proxy(embedded_aws.endpoint).open() as proxy,
    ):
        running.client("s3").create_bucket(Bucket="stories")
        hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set("fs.s3a.bucket.stories.endpoint", proxy.url)
        once = Config(retries={"total_max_attempts": 1, "mode": "standard"})
        mortal = connect({**aws, "AWS_ENDPOINT_URL": proxy.url})["dynamodb"]
        mortal.meta.config.merge(once)
        names = running.environment["CATALOG_TABLE"], running.environment["TOKENS_TABLE"]
        dynamo = dynamo_of(running.environment)
        yield Server(
            spark,
            running.admin,
            Leases(names[0], dynamo),
            connect_catalog(*names, dynamo),
            connect_catalog(*names, Dynamo(lambda: mortal)),
            proxy,
            running.endpoint,
            running.environment,
        )


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + STORIES))
def test_random_story_ends_as_plain_python_predicts(server: Server, tmp_path: Path, seed: int) -> None:
    drawn = story(seed)
    play = Play(server, drawn, tmp_path, f"story{seed}")
    play.open()
    for number, delivery in enumerate(drawn.deliveries):
        first = not drawn.written
        try:
            expected = drawn.take(delivery)
        except Refused as reason:
            with pytest.raises(DeltaicError):  # noqa: PT012 -- says which delivery was taken
                play.run(number, delivery)
                pytest.fail(f"{drawn}: delivery {number} must be refused: {reason}")
        else:
            summary = play.run(number, delivery)
            if not delivery.killed:
                check_counts(summary, expected, f"{drawn}, delivery {number}")
            if delivery.again:
                again = play.run(number, delivery)
                assert (again.version, again.repeated) == (summary.version, summary.committed), drawn
            if drawn.keyed and summary.committed:
                same = play.run(number, delivery, "-redelivered")
                assert (same.redelivered, same.committed, same.rows) == (True, False, 0), drawn
            if first and seed % 2 == 0:
                play.open_view()
        if not drawn.written:
            continue
        play.check_quarantine()
        play.check_readers()
        if play.viewers:
            view = server.admin.views.get(f"{play.name}_v", "d", "t")
            refresh_view(server.spark, view, server.catalog, f"day-{number}")
            play.check_viewers()


def check_counts(summary: RunSummary, expected: Counted, description: str) -> None:
    actual = Counted(summary.rows, summary.written, summary.quarantined, summary.dropped, summary.unchanged)
    actual.deleted = summary.deleted
    assert actual == expected, description
