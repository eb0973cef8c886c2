"""A view's refresh: the rows that changed since the last one, for all policies in one commit (decisions 86, 87)."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.errors import all_said, said_by_spark, spark_failures
from deltaic_pipeline.spark.quoting import quoted
from deltaic_pipeline.table.merging import refuse_undecided
from deltaic_pipeline.table.sources import spark_path
from deltaic_pipeline.table.table_properties import set_properties
from deltaic_pipeline.table.writing import Transaction, refuse_void_columns
from deltaic_pipeline.view_refresh import applying
from deltaic_pipeline.view_refresh.changes import Counts, as_rows, by_key, counted_as_rows, counted_by_key, net
from deltaic_pipeline.view_refresh.definition import POLICY, Definition, Wanted
from deltaic_pipeline.view_refresh.evaluating import Evaluation, at_fault, located
from deltaic_pipeline.view_refresh.sql import CLOCK_IS_ASKED, ViewSql, read_sql
from deltaic_pipeline.view_refresh.tables import Mark, Seen, recent_marks, seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION = "deltaic-view"
MADE_BY = 1
"""Counts the ways in which rows were made of the same SQL; another one computes all rows anew."""

VERSION_BITS = 32
"""Of a transaction's version the low bits are the source's version, and the others count the refreshes."""

VERSION_PROPERTY = "deltaic.view.version"
"""The version whose rows the other properties tell of."""

FED = ("_change_type", "_commit_version", "_commit_timestamp")
GAINED, LOST = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh found and did."""

    version: int
    """The version of the view that holds the wanted rows: the commit of the rows, or the latest if none changed."""

    source_versions: Mapping[str, int]
    """The version of each table that was read, by its full name."""

    full_because: str
    """Why all rows were computed; empty if the source's changes were enough."""

    inserted: int
    updated: int
    deleted: int
    """Rows that changed over all policies; nothing was committed if all three are 0 and `repeated` is False."""

    rows: Mapping[str, int]
    """How many rows each wanted policy has now."""

    bytes: int
    """The size of the data files of the latest version."""

    repeated: bool
    """True when an earlier attempt of this run had committed already, so that nothing was computed now."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a view stands, as the last commit of its rows says (decision 88)."""

    number: int
    """Counts the commits of rows."""

    definition: str
    source_id: str
    schema: str
    source_version: int

    @classmethod
    def of(cls, table: Seen) -> "Stand | None":
        """Return where a table stands; None if no refresh has written it."""
        ours = [(version, name) for name, version in table.transactions().items() if name.startswith(f"{APPLICATION}/")]
        if not ours:
            return None
        version, name = max(ours)
        _, definition, source_id, schema = name.split("/")
        return cls(version >> VERSION_BITS, definition, source_id, schema, version & ((1 << VERSION_BITS) - 1))

    @property
    def application(self) -> str:
        """The name by which its commit is written."""
        return f"{APPLICATION}/{self.definition}/{self.source_id}/{self.schema}"

    @property
    def version(self) -> int:
        """The version of that application: it grows with every commit, whatever the definition."""
        return self.number << VERSION_BITS | self.source_version


def refresh(
    spark: "SparkSession", definition: Definition, wanted: Sequence[Wanted], known: Collection[str], run: str
) -> Refreshed:
    """Bring the view's table to the latest version of what it reads, in one commit, or none where nothing changed.

    `known` are the policies that the catalog says the table holds; a wanted policy that is not among them is computed
    in full, and rows of policies that are not wanted are deleted, all in the same commit. The caller holds the lease on
    the view's location, `spark` is its attempt's own session. `run` names this refresh: repeated after it committed, it
    commits no rows again. Raises `InvalidParameter` for SQL that no view can have and `PipelineError` for what Spark
    refuses, for keys that are given twice or not at all, and for columns that the view's table would lose.
    """
    sql = read_sql(definition.sql, definition.source.name)
    once = {policy.policy: policy for policy in wanted}
    with _said_of(definition, wanted):
        return _Refresh(spark, definition, sql, tuple(once.values()), frozenset(known), run).done()


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which policies follow the source's changes, and which are computed in full."""

    followed: Sequence[Wanted]
    whole: Sequence[Wanted]
    why: str
    """Why all are computed in full; empty where they follow."""


class _Refresh:
    """One refresh on its way."""

    def __init__(  # noqa: PLR0913, PLR0917 -- what a refresh is asked for
        self,
        spark: "SparkSession",
        definition: Definition,
        sql: ViewSql,
        wanted: Sequence[Wanted],
        known: frozenset[str],
        run: str,
    ) -> None:
        self._spark, self._definition, self._sql = spark, definition, sql
        self._wanted, self._known, self._run = wanted, known, run
        self._source = _table(spark, definition.source.name, definition.source.location)
        others = {name.lower(): table for name, table in definition.others.items()}
        missing = next((name for name in sql.tables if name.lower() not in others), None)
        if missing is not None:
            raise PipelineError(f"the SQL reads {missing}, which is not shared: share it, or leave it out.")
        self._others = {name: _table(spark, name, others[name.lower()].location) for name in sql.tables}
        self._versions = {definition.source.name: self._source.version} | {
            others[name.lower()].name: table.version for name, table in self._others.items()
        }

    def done(self) -> Refreshed:
        before = seen(self._spark, self._definition.location)
        if before is None:
            return self._first()
        marks = [mark for mark in recent_marks(self._spark, before.location) if "view" in mark[2]]
        if marks and before.properties.get(VERSION_PROPERTY) != str(marks[0][0]):
            # A refresh was killed between its rows and its words.
            self._describe(marks[0][0], marks[0][1], marks[0][2]["sourceVersions"])
        for version, _, mark in marks:
            if mark.get("run") == self._run and mark.get("policies") == self._policies:
                versions = {str(name): int(of) for name, of in mark["sourceVersions"].items()}
                found = self._told(version, {}, str(mark.get("full", "")), before.counted(self._spark), before.bytes())
                return replace(found, source_versions=versions, repeated=True)
        if POLICY not in before.rows(self._spark).columns:
            raise PipelineError(f"at {before.location} lies a table that is no view's: give the view another location.")
        return self._next(before, marks)

    def _first(self) -> Refreshed:
        """Make the table: no rows are there to compare with."""
        why = "it is the first refresh"
        self._check_columns(self._columns, None)
        rows, stand = self._evaluation.rows(self._rows, self._wanted), self._stand(0)
        applying.create(self._spark, rows, self._definition.location, self._definition.key, self._writer(stand, why))
        version, actions = self._written(stand)
        counts: Counter[str] = Counter()
        for add in (action["add"] for action in actions if "add" in action):
            counts[add["partitionValues"][POLICY]] += int(json.loads(add["stats"])["numRecords"])
        changes = {policy: Counts(count, 0, 0) for policy, count in counts.items()}
        return self._told(version, changes, why, counts, _growth(actions))

    def _next(self, before: Seen, marks: Sequence[Mark]) -> Refreshed:
        stood = Stand.of(before)
        there = before.counted(self._spark)
        plan = self._plan(stood, there)
        gone = sorted(there.keys() - {policy.policy for policy in self._wanted})
        if not gone and self._unchanged(stood, plan, marks):
            return self._told(before.version, {}, "", there, before.bytes())
        key = self._definition.key
        if key and (stood is None or stood.definition != self._digest):
            # The table's rows may have been made with another key: they are compared as a whole, this time.
            refuse_undecided(self._evaluation.rows(self._rows, self._wanted), [POLICY, *key])
            key = ()
        try:
            changed, counts = self._computed(before, stood, plan, gone, key)
        except spark_failures():
            why = self._unfollowed(stood, plan)
            if not why:
                raise
            plan = _Plan((), self._wanted, why)
            changed, counts = self._computed(before, stood, plan, gone, key)
        try:
            stand = self._stand(0 if stood is None else stood.number + 1)
            writer = self._writer(stand, plan.why)
            if counts:
                self._apply(changed, counts, before, there, key, writer)
            else:
                return self._told(before.version, {}, plan.why, there, before.bytes())
        finally:
            changed.unpersist()
        version, actions = self._written(stand)
        rows = Counter(there)
        for policy, count in counts.items():
            rows[policy] += count.inserted - count.deleted
        return self._told(version, counts, plan.why, rows, before.bytes() + _growth(actions))

    def _plan(self, stood: Stand | None, there: Mapping[str, int]) -> _Plan:
        why = self._why_full(stood)
        if why:
            return _Plan((), self._wanted, why)
        # Without rows nothing shows that a policy stands where the others do: it may have been empty at a later
        # version, or the catalog is older than the table, as a restored one.
        standing = self._known & {policy for policy, count in there.items() if count}
        followed = [policy for policy in self._wanted if policy.policy in standing]
        return _Plan(followed, [policy for policy in self._wanted if policy.policy not in standing], "")

    def _why_full(self, stood: Stand | None) -> str:
        if stood is None:
            return "no refresh has written its table yet"
        if stood.definition != self._digest:
            return "its SQL, its key or its source is another one than before"
        if stood.source_id != self._source.id:
            return "another table lies where its source was"
        if stood.schema != _short(self._source.schema):
            return "the source's columns are others than before"
        if self._evaluation.asks_for_time(self._rows, self._wanted):
            return CLOCK_IS_ASKED
        if not self._sql.row_wise:
            return self._sql.why_full
        if not self._evaluation.stands_alone(self._rows):
            return "the SQL is more than columns and a WHERE"
        if stood.source_version > self._source.version:
            return "the source's versions are fewer than before"
        changes = self._source.version > stood.source_version
        if changes and self._source.properties.get("delta.enableChangeDataFeed", "false").lower() != "true":
            return "the source has no change feed (delta.enableChangeDataFeed)"
        return ""

    def _unchanged(self, stood: Stand | None, plan: _Plan, marks: Sequence[Mark]) -> bool:
        """Tell without computing anything that the rows are as they shall be."""
        if stood is None or stood.definition != self._digest or stood.source_id != self._source.id:
            return False
        if not {policy.policy for policy in self._wanted} <= self._known:
            return False
        if not plan.why:
            return stood.source_version == self._source.version
        return plan.why != CLOCK_IS_ASKED and bool(marks) and marks[0][2].get("sourceVersions") == self._versions

    def _computed(
        self, before: Seen, stood: Stand | None, plan: _Plan, gone: Sequence[str], key: Sequence[str]
    ) -> "tuple[DataFrame, dict[str, Counts]]":
        """Compute the net changes, which are kept on disk until they are let go of, and count them."""
        from pyspark import StorageLevel

        changed = self._changed(before, stood, plan, gone).persist(StorageLevel.DISK_ONLY)
        try:
            return changed, counted_by_key(by_key(changed, key), key) if key else counted_as_rows(changed)
        except BaseException:
            changed.unpersist()
            raise

    def _feed(self, stood: Stand | None, plan: _Plan) -> "DataFrame | None":
        """Return what changed at the source since the last refresh; None where nothing is followed."""
        if not plan.followed or stood is None or stood.source_version == self._source.version:
            return None
        first, last = str(stood.source_version + 1), str(self._source.version)
        options = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": last}
        return self._spark.read.format("delta").options(**options).load(spark_path(self._source.location))

    def _unfollowed(self, stood: Stand | None, plan: _Plan) -> str:
        """Return why the source's changes cannot be read, if that is why Spark failed."""
        try:
            feed = self._feed(stood, plan)
            if feed is not None:
                # Delta looks at the log when it plans, and at files when they are read: one of them may be gone.
                feed.count()
        except spark_failures() as failure:
            return f"the source no longer tells its changes: {said_by_spark(failure)}"
        return ""

    def _changed(self, before: Seen, stood: Stand | None, plan: _Plan, gone: Sequence[str]) -> "DataFrame":
        """Return the net changes (lazily)."""
        from pyspark.sql import functions

        there, columns, feed = before.rows(self._spark), self._columns, self._feed(stood, plan)
        self._check_columns(columns, there)
        gained, lost = columns, columns
        if feed is not None:
            gained = gained.unionAll(self._evaluation.rows(_of(feed, GAINED), plan.followed))
            lost = lost.unionAll(self._evaluation.rows(_of(feed, LOST), plan.followed))
        if plan.whole:
            gained = gained.unionAll(self._evaluation.rows(self._rows, plan.whole))
        computed = [*(policy.policy for policy in plan.whole), *gone]
        if computed:
            lost = lost.unionAll(_shaped(there.where(functions.col(POLICY).isin(computed)), columns))
        return net(gained, lost)

    def _apply(  # noqa: PLR0913, PLR0917 -- what changes, in which table, by what, and who writes
        self,
        changed: "DataFrame",
        counts: Mapping[str, Counts],
        before: Seen,
        there: Mapping[str, int],
        key: Sequence[str],
        writer: Transaction,
    ) -> None:
        from pyspark.sql import functions

        location, losing = self._definition.location, [name for name, count in counts.items() if count.deleted]
        if key:
            staged = by_key(changed, key)
        else:
            rows = before.rows(self._spark).where(functions.col(POLICY).isin(losing))
            staged = as_rows(changed, _shaped(rows, self._columns) if losing else None)
        grows = all(not (count.updated or count.deleted) for count in counts.values())
        if grows and not (key and any(there.get(policy) for policy in counts)):
            applying.append(self._spark, staged, location, writer)
        else:
            applying.merge(self._spark, staged, location, key, sorted(counts), writer)

    def _check_columns(self, rows: "DataFrame", there: "DataFrame | None") -> None:
        """Refuse columns that lack a key, and such as the view's table cannot have."""
        refuse_void_columns(rows)
        names = {name.lower() for name in rows.columns}
        missing = next((name for name in self._definition.key if name.lower() not in names), None)
        if missing is not None:
            raise PipelineError(f"the key column {missing} is not among the view's: {', '.join(rows.columns[1:])}.")
        if there is None:
            return
        given = {field.name.lower(): field.dataType for field in rows.schema.fields}
        for field in there.schema.fields:
            found = given.get(field.name.lower())
            # By their names: whether an element may be null is another matter to Spark than to the table.
            if found is None or found.simpleString() != field.dataType.simpleString():
                said = "is gone" if found is None else f"is {found.simpleString()} now"
                raise PipelineError(
                    f"the column {field.name} ({field.dataType.simpleString()}) {said}, which whoever streams the view "
                    "cannot follow: keep it in the SQL (CAST(... AS type) AS name), or make a new view."
                )

    def _describe(self, version: int, moment: str, versions: Mapping[str, int]) -> None:
        """Let the table tell how fresh its rows are."""
        properties = {
            VERSION_PROPERTY: str(version),
            "deltaic.view.sourceVersions": json.dumps(versions, sort_keys=True),
            "deltaic.view.refreshedAt": moment,
        }
        set_properties(self._spark, self._definition.location, properties)

    def _told(
        self,
        version: int,
        counts: Mapping[str, Counts],
        why: str,
        rows: Mapping[str, int],
        size: int,
    ) -> Refreshed:
        return Refreshed(
            version,
            self._versions,
            why,
            sum(count.inserted for count in counts.values()),
            sum(count.updated for count in counts.values()),
            sum(count.deleted for count in counts.values()),
            {policy.policy: rows.get(policy.policy, 0) for policy in self._wanted},
            size,
            repeated=False,
        )

    def _written(self, stand: Stand) -> tuple[int, list[dict[str, Any]]]:
        """Return the version and the actions of the commit; raises `PipelineError` if it is not in the log."""
        table = _table(self._spark, self._definition.name, self._definition.location)
        actions = table.last_commit(self._spark)
        ours = {"appId": stand.application, "version": stand.version}
        if not any(ours.items() <= action.get("txn", {}).items() for action in actions):
            raise PipelineError(
                f"the commit of {self._run} is not in the log of {self._definition.location}: "
                "another writer that does not take the table's lease has overwritten it. Run the job again."
            )
        self._describe(table.version, datetime.now(UTC).isoformat(timespec="milliseconds"), self._versions)
        return table.version, actions

    @cached_property
    def _evaluation(self) -> Evaluation:
        rows = {name: table.rows(self._spark) for name, table in self._others.items()}
        return Evaluation(self._spark, self._sql, located(rows, self._sql))

    @cached_property
    def _rows(self) -> "DataFrame":
        """The source's rows."""
        return self._source.rows(self._spark)

    @cached_property
    def _columns(self) -> "DataFrame":
        """No rows, of the view's columns."""
        return self._evaluation.columns(self._rows)

    def _stand(self, number: int) -> Stand:
        return Stand(number, self._digest, self._source.id, _short(self._source.schema), self._source.version)

    def _writer(self, stand: Stand, why: str) -> Transaction:
        mark: dict[str, str | int | Mapping[str, int]] = {
            "view": self._definition.name,
            "run": self._run,
            "policies": self._policies,
            "sourceVersions": self._versions,
        }
        return Transaction(stand.application, stand.version, mark | ({"full": why} if why else {}))

    @cached_property
    def _policies(self) -> str:
        return _short(json.dumps(sorted(policy.policy for policy in self._wanted)))

    @cached_property
    def _digest(self) -> str:
        one = self._definition
        others = {name.lower(): table.location for name, table in one.others.items() if name in self._others}
        said = [MADE_BY, one.sql, [name.lower() for name in one.key], one.source.location, others]
        return _short(json.dumps(said, sort_keys=True))


@contextmanager
def _said_of(definition: Definition, wanted: Sequence[Wanted]) -> Iterator[None]:
    """Name the view in what Spark refuses, and the property whose value it cannot cast."""
    try:
        yield
    except spark_failures() as failure:
        name = at_fault(all_said(failure), wanted)
        cause = f"the recipients' property '{name}' has a value that its SQL cannot take: " if name else ""
        raise PipelineError(f"view {definition.name}: {cause}{said_by_spark(failure)}") from failure
    except PipelineError as failure:
        raise PipelineError(f"view {definition.name}: {failure.message}") from failure


def _table(spark: "SparkSession", name: str, location: str) -> Seen:
    table = seen(spark, location)
    if table is None:
        raise PipelineError(f"there is no Delta table of {name} at {location}.")
    return table


def _of(feed: "DataFrame", kinds: Sequence[str]) -> "DataFrame":
    from pyspark.sql import functions

    return feed.where(functions.col(FED[0]).isin(*kinds)).drop(*FED)


def _shaped(rows: "DataFrame", columns: "DataFrame") -> "DataFrame":
    """Return rows of the view's table in the columns that the SQL gives now; null where a column is new."""
    from pyspark.sql import functions

    known = {name.lower() for name in rows.columns}
    return rows.select(*(
        functions.col(quoted(field.name)) if field.name.lower() in known
        else functions.lit(None).cast(field.dataType).alias(field.name)
        for field in columns.schema.fields
    ))  # fmt: skip


def _growth(actions: Sequence[Mapping[str, Any]]) -> int:
    """Return by how many bytes a commit has made the table larger."""
    added = sum(int(action["add"]["size"]) for action in actions if "add" in action)
    return added - sum(int(action["remove"].get("size") or 0) for action in actions if "remove" in action)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
