"""Datasets day by day, with whatever goes wrong: tables, quarantine, counts and feeds are those of plain Python.

A plain table, a filtered one and a view of it are read by recipients through the published client after every run; a
feed is compared row by row with the difference of the versions. Two stories where `DELTAIC_LONG` is set;
`DELTAIC_STORIES=300` tells as many, from the seed `DELTAIC_STORY_SEED` on.
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
from deltaic_pipeline.table.catalog_entry import Catalog
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

TOLD = int(os.environ.get("DELTAIC_STORIES", "2"))
FIRST_SEED = int(os.environ.get("DELTAIC_STORY_SEED", "1"))
FED = ("_change_type", "_commit_version", "_commit_timestamp")
GAINED, LOST = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass
class Server:
    """The gateway over the embedded AWS that Spark writes to; jobs reach it through a proxy that can let them die."""

    spark: "SparkSession"
    admin: CatalogAdmin
    leases: Leases
    catalog: Catalog
    mortal: Catalog
    """The same catalog behind the proxy."""

    proxy: Proxy
    endpoint: str
    environment: Mapping[str, str]


@dataclass
class Reader:
    """A recipient: what she reads, and what she must have read at each version."""

    url: str
    site: str | None
    """She sees the rows of this site; all if it is None."""

    versions: dict[int, Rows] = field(default_factory=dict)

    def sees(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [row for row in rows if self.site is None or row["site"] == self.site]


@dataclass
class Play:
    """One story as it is played: a dataset, its table shared with two recipients, and a view of it with two others."""

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
        """Make shares and recipients; one reader of the table gets the rows of a site where it is partitioned."""
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
        """Run the dataset over one delivery; one that is to die is started again by its id, as its provider would."""
        suffix = self.story.format
        options = write_file(delivery, suffix, self.folder / f"day{number}.{suffix}")
        os.utime(self.folder / f"day{number}.{suffix}", ns=(number, number))  # the same file as before
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
                expectations=[dict(one.said) for one in self.story.expected],
            ),
            f"day-{number}{more}",
        )
        if delivery.killed and not more:
            with living(self.server.proxy, 1 + (self.story.seed * 7 + number * 11) % 30), suppress(DeltaicError):
                build(self.server.spark, run, self.server.mortal, silent)
            self._bury()
        return build(self.server.spark, run, self.server.catalog, silent)

    def _bury(self) -> None:
        """Forget what the dead held, as the end of its process and of its leases would."""
        for place in (self.location, f"{self.location}_quarantine"):
            lease = held_lease(self.server.leases, place)
            if lease is not None:
                self.server.leases.release(place, lease.holder)
        jvm: Any = self.server.spark.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def check_quarantine(self) -> None:
        """Compare what is put aside, as deltalake reads it; the table itself is read by recipients."""
        if not self.story.aside:
            return
        options = {**self.server.environment, "AWS_ALLOW_HTTP": "true"}
        held = DeltaTable(f"{self.location}_quarantine", storage_options=options).to_pandas()
        names = {*COLUMNS, OP, "extra", "_raw"}
        rows = [
            {**{name: value for name, value in row.items() if name in names}, "reasons": tuple(sorted(row["_reasons"]))}
            for row in plain(held)
        ]
        expected = [{**row, "reasons": tuple(sorted(why))} for row, why in self.story.aside]
        if self.story.format == "csv":  # the row is written as CSV again, with quotes only where they are needed
            for row in (*rows, *expected):
                if row.get("_raw") is not None:
                    row["_raw"] = tuple(next(csv.reader([row["_raw"]], delimiter=";")))
        assert counted(rows) == counted(expected), self.story

    def check_readers(self) -> None:
        keys = ("id", "valid_from") if self.story.mode == "scd2" else ("id",)
        for reader in self.readers.values():
            # A merge that updates rows on both sides of a filter is told to who sees one side as whole files.
            exact = self.story.keyed and reader.site is None
            self._check(reader, reader.sees(self.story.table), keys, exact=exact)

    def check_viewers(self) -> None:
        shown = [row for row in self.story.table if row.get("is_current", True)]
        shown = [{name: row[name] for name in ("id", "site", "dose", "note")} for row in shown]
        for reader in self.viewers.values():
            self._check(reader, reader.sees(shown), ("id",) if self.story.keyed else (), exact=True)

    def _check(self, reader: Reader, rows: Sequence[Mapping[str, Any]], keys: Sequence[str], *, exact: bool) -> None:
        told = f"{self.story}, {reader.url.partition('#')[0].rpartition('/')[2]}"
        after = counted(rows)
        latest = (
            delta_sharing.SharingClient(reader.url.partition("#")[0])
            ._rest_client.query_table_version(_table(reader.url))
            .delta_table_version
        )
        for delta in (False, True):
            assert counted(plain(delta_sharing.load_as_pandas(reader.url, use_delta_format=delta))) == after, told
        known = max(reader.versions, default=-1)
        before = reader.versions.get(known, Counter())
        reader.versions[latest] = after
        if latest == known:
            assert before == after, told
            return
        if known < 0:
            return
        for delta in (False, True):
            feed = plain(
                delta_sharing.load_table_changes_as_pandas(
                    reader.url, starting_version=known + 1, ending_version=latest, use_delta_format=delta
                )
            )
            check_feed(feed, before, after, keys, exact=exact, told=f"{told}, versions {known + 1} to {latest}")


def _table(url: str) -> delta_sharing.protocol.Table:
    share, schema, name = url.partition("#")[2].split(".")
    return delta_sharing.protocol.Table(name, share, schema)


def check_feed(
    feed: Sequence[Mapping[str, Any]], before: Rows, after: Rows, keys: Sequence[str], *, exact: bool, told: str
) -> None:
    """Compare a feed with the difference of two versions.

    `exact`: no row is told as lost and gained again, and one whose keys stay is an update. Of equal copies some may be
    lost by taking all and giving the rest back.
    """

    def those(*kinds: str) -> Rows:
        chosen = [row for row in feed if row["_change_type"] in kinds]
        return counted({name: row[name] for name in row if name not in FED} for row in chosen)

    gained, lost = those(*GAINED), those(*LOST)
    state = Counter(before)
    state.subtract(lost)
    assert min(state.values(), default=0) >= 0, f"{told}: rows are lost that were not there: {lost - before}"
    state.update(gained)
    assert +state == after, f"{told}: not by the feed {after - state}, only by the feed {state - after}"
    if not exact:
        return
    for row in gained.keys() & lost.keys():
        assert not keys, f"{told}: a row is lost and gained again: {row}"
        assert (before[row], after[row]) == (lost[row], gained[row]), f"{told}: {row}"
    if keys:
        gained_keys, lost_keys = ({_key(row, keys) for row in rows} for rows in (gained, lost))
        updated = {_key(row, keys) for row in those("update_preimage", "update_postimage")}
        assert updated == gained_keys & lost_keys, f"{told}: updates are told of {updated}"
        divided = {_key(row, keys) for row in those("insert", "delete")}
        assert divided == gained_keys ^ lost_keys, f"{told}: inserted and deleted are {divided}"


def _key(row: tuple[tuple[str, Any], ...], keys: Sequence[str]) -> tuple[Any, ...]:
    values = dict(row)
    return tuple(values.get(key) for key in keys)


def plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as plain values: integers beside nulls are doubles there, and times may have a zone."""

    def value(one: Any) -> Any:
        if one is None or one is pd.NaT or (isinstance(one, float) and one != one):  # noqa: PLR0124 -- NaN
            return None
        if isinstance(one, pd.Timestamp):
            return one.tz_localize(None).to_pydatetime() if one.tz is None else one.tz_convert(None).to_pydatetime()
        if isinstance(one, float):
            return int(one)
        return one.item() if isinstance(one, np.generic) else one

    return [{name: value(one) for name, one in row.items()} for row in frame.to_dict("records")]


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


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TOLD))
def test_a_story_ends_as_plain_python_says(server: Server, tmp_path: Path, seed: int) -> None:
    told = story(seed)
    play = Play(server, told, tmp_path, f"story{seed}")
    play.open()
    for number, delivery in enumerate(told.deliveries):
        first = not told.written
        try:
            wanted = told.take(delivery)
        except Refused as reason:
            with pytest.raises(DeltaicError):  # noqa: PT012 -- says which delivery was taken
                play.run(number, delivery)
                pytest.fail(f"{told}: delivery {number} must be refused: {reason}")
        else:
            summary = play.run(number, delivery)
            if not delivery.killed:
                check_counts(summary, wanted, f"{told}, delivery {number}")
            if delivery.again:
                again = play.run(number, delivery)
                assert (again.version, again.repeated) == (summary.version, summary.committed), told
            if told.keyed and summary.committed:
                same = play.run(number, delivery, "-redelivered")
                assert (same.redelivered, same.committed, same.rows) == (True, False, 0), told
            if first and seed % 2 == 0:
                play.open_view()
        if not told.written:
            continue
        play.check_quarantine()
        play.check_readers()
        if play.viewers:
            view = server.admin.views.get(f"{play.name}_v", "d", "t")
            refresh_view(server.spark, view, server.catalog, f"day-{number}")
            play.check_viewers()


def check_counts(summary: RunSummary, wanted: Counted, told: str) -> None:
    found = Counted(summary.rows, summary.written, summary.quarantined, summary.dropped, summary.unchanged)
    found.deleted = summary.deleted
    assert found == wanted, told
