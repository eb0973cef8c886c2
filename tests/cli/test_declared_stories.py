"""Files against a plain model of what recipients see: applied, changed by hand, killed at any write, two at once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from catalog import schema
from delta_tables.handmade import lines, metadata, protocol
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.asset_items import Model, Skill, Volume
from deltaic.catalog.catalog_lock import locked
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.reader import CatalogReader
from deltaic.errors import DeltaicError
from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.sessions import SigningSessions
from deltaic.storage.table_catalogs import clients_at
from deltaic_ops.declared.declaration import Declaration
from deltaic_ops.declared.differences import declaration_of, differences
from deltaic_ops.declared.plan import plan
from deltaic_ops.declared.plan_execution import PlanExecution
from deltaic_ops.inspection.shared_schema import SchemaReader
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from laws import tries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import boto3
    from deltaic_ops.local.embedded import EmbeddedAws

BUCKET = "declared-lake"
LAKE = f"s3://{BUCKET}"
ROWS = ["", "", "p = 'EU'", "p = current_recipient('region')"]
POLICIES: list[dict[str, str]] = [
    {"issuer": "https://login.test", "audience": "deltaic", "subject": subject} for subject in ("7f3c", "ada")
]
SQL = ["SELECT x, p FROM source", "SELECT x FROM source WHERE p = current_recipient('region')"]


class Killed(BaseException):
    """The process ends here."""


class Dying:
    """A client of DynamoDB that dies before or after one of its transactions, which all its writes are."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.left: int | None = None
        """Transactions until it dies; None: it lives."""
        self.after = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **arguments: Any) -> Any:
        dies = self.left == 0
        if self.left is not None:
            self.left = None if dies else self.left - 1
        if dies and not self.after:
            raise Killed
        answer = self._client.transact_write_items(**arguments)
        if dies:
            raise Killed
        return answer


class Catalog:
    """A catalog, a lake, and an operator who may read it."""

    def __init__(self, client: Any, schemas: Callable[[CatalogAdmin], SchemaReader]) -> None:
        self.client: Any = Dying(client)
        unique = uuid4().hex
        self.tables = (f"catalog-{unique}", f"tokens-{unique}")
        schema.create(client, *self.tables)
        self.dynamo = Dynamo(lambda: self.client)
        self.admin = self.admin_of(self.dynamo)
        self.reader = CatalogReader(self.tables[0], self.dynamo)
        self._schemas = schemas
        self.now = 1_800_000_000.0

    def admin_of(self, dynamo: Dynamo) -> CatalogAdmin:
        return CatalogAdmin(*self.tables, dynamo)

    def apply(self, declared: Declaration, check: Callable[[], object] = lambda: None) -> None:
        """Make the catalog what files say, and look at it between any two steps."""
        with locked(self.dynamo, self.tables[0], uuid4().hex, lambda: self.now) as lock:
            admin = self.admin_of(lock)
            schemas = self._schemas(admin)
            applying = PlanExecution(admin, lambda: schemas)
            admin.finish_deletions()
            for _ in applying.carry_out(plan(declared, declaration_of(admin, files=declared)).steps):
                lock.prolong()
                check()

    def visible_rows(self) -> dict[str, set[tuple[str, str]]]:
        """Return what each recipient is listed, by its kind and name."""
        return {recipient.name: set(self._rows_of(recipient.id)) for recipient in self.admin.recipients.list()}

    def _rows_of(self, recipient: str) -> Iterator[tuple[str, str]]:
        for share in self.reader.list_shares(recipient, None, 99):
            for table in self.reader.list_tables(recipient, share.name, None, None, 99):
                yield "table", table.title.lower()
            for kind in (Volume, Skill, Model):
                for asset in self.reader.list_assets(recipient, kind, share.name, None, None, 99):
                    yield kind.kind, asset.title.lower()

    def items(self) -> dict[str, list[dict[str, Any]]]:
        """Return the items of both tables, which are fewer than a page."""
        return {table: self.client.scan(TableName=table, ConsistentRead=True)["Items"] for table in self.tables}

    def restore(self, items: dict[str, list[dict[str, Any]]]) -> None:
        """Replace all items by those of an earlier state."""
        for table, current in self.items().items():
            kept = [(item["pk"], item["sk"]) for item in items[table]]
            keys = [{"pk": item["pk"], "sk": item["sk"]} for item in current if (item["pk"], item["sk"]) not in kept]
            writes = [{"PutRequest": {"Item": item}} for item in items[table]]
            writes += [{"DeleteRequest": {"Key": key}} for key in keys]
            for start in range(0, len(writes), 25):  # the limit of BatchWriteItem
                answer = self.client.batch_write_item(RequestItems={table: writes[start : start + 25]})
                assert not answer["UnprocessedItems"]

    def clear(self) -> None:
        self.client.left = None
        for recipient in list(self.admin.recipients.list()):
            self.admin.recipients.delete(recipient.name)
        for share in list(self.admin.shares.list()):
            self.admin.shares.delete(share.name, force=True)


@pytest.fixture(scope="module")
def catalog(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Catalog:
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket=BUCKET)
    log = lines([protocol(), metadata(partitions=("p",))])
    for name in ("one", "two", "three", "three/inner"):
        s3.put_object(Bucket=BUCKET, Key=f"{name}/_delta_log/{0:020d}.json", Body=log)
    s3.put_object(Bucket=BUCKET, Key="volume/a.txt", Body=b"x")
    s3.put_object(
        Bucket=BUCKET, Key="skills/read-forms/SKILL.md", Body=b"---\nname: read-forms\ndescription: Reads.\n---\n"
    )
    environment, endpoint, region = embedded_aws.environment, embedded_aws.endpoint, "us-east-1"
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])

    def client(service: Any) -> Any:
        return aws_session.client(service, endpoint_url=endpoint)

    def schemas(admin: CatalogAdmin) -> SchemaReader:
        home = StorageConfig(region=region, endpoint=endpoint, path_style=True)
        sessions = SigningSessions(region=region, endpoint=endpoint, client=client)
        return SchemaReader(home, lambda: keys, sessions, admin.storages.get, clients_at(home))

    return Catalog(client("dynamodb"), schemas)


@st.composite
def tables(draw: Any) -> dict[str, Any]:
    rows, hidden = draw(st.sampled_from(ROWS)), draw(st.sampled_from([[], [], ["P"]]))
    modes = ["url"] if rows or hidden else draw(st.sampled_from([["url"], ["url", "dir"]]))
    return {
        "location": f"{LAKE}/{draw(st.sampled_from(['one', 'two']))}",
        "partition_filter": rows,
        "hidden_columns": hidden,
        "access_modes": modes,
        "history": draw(st.booleans()),
        "start_version": draw(st.integers(0, 2)),
        "iceberg": draw(st.sampled_from(["", "signed"])),
    }


def some_of(draw: Any, *names: str) -> list[str]:
    return [name for name in names if draw(st.booleans())]


@st.composite
def declarations(draw: Any) -> Declaration:
    """Return files that can be applied: what narrows a share fits all that is in it."""
    content: dict[str, Any] = {"shares": {}, "recipients": {}}
    with_views = set()
    for share in some_of(draw, "s", "S.2", "third"):
        schemas = {}
        for name in some_of(draw, "a", "B"):
            tables_ = draw(st.dictionaries(st.sampled_from(["t", "U"]), tables(), max_size=2))
            views = {}
            for table in tables_:
                if draw(st.booleans()):
                    views[f"v-{table}"] = {
                        "location": f"{LAKE}/views/{share}-{name}-{table}",
                        "source": f"{share}.{name}.{table}",
                        "sql": draw(st.sampled_from(SQL)),
                        "history": draw(st.booleans()),
                        "max_staleness": draw(st.integers(0, 1)),
                    }
                    with_views.add(share)
            versions = st.fixed_dictionaries(
                {"location": st.just(f"{LAKE}/volume")}, optional={"run_id": st.sampled_from(["r", "q"])}
            )
            volume = st.fixed_dictionaries(
                {"location": st.just(f"{LAKE}/volume")}, optional={"comment": st.sampled_from(["x", "y"])}
            )
            skill = {"read-forms": {"location": f"{LAKE}/skills/read-forms"}}
            follow = st.fixed_dictionaries(
                {"source": st.sampled_from([f"{LAKE}/followed/", "glue:lake"])},
                optional={"exclude": st.just(["TMP_*"]), "history": st.booleans()},
            )
            schemas[name] = {
                "follow": draw(st.none() | follow),
                "tables": tables_,
                "views": views,
                "volumes": draw(st.dictionaries(st.just("files"), volume)),
                "skills": draw(st.sampled_from([{}, skill])),
                "models": draw(
                    st.dictionaries(
                        st.just("churn"),
                        st.fixed_dictionaries({"versions": st.dictionaries(st.sampled_from([1, 2]), versions)}),
                    )
                ),
            }
        content["shares"][share] = {"schemas": schemas, "comment": draw(st.sampled_from(["", "ours"]))}
    free = POLICIES  # each policy belongs to one recipient, and can move to the other later
    for recipient in some_of(draw, "alice", "Bob"):
        grants = {
            share: {"partition_filter": "" if share in with_views else draw(st.sampled_from(ROWS))}
            for share in some_of(draw, *content["shares"])
        }
        numbers = draw(st.lists(st.sampled_from(range(len(free))), unique=True)) if free else []
        mine = [free[number] for number in numbers]
        free = [policy for number, policy in enumerate(free) if number not in numbers]
        content["recipients"][recipient] = {
            "policies": [{**policy, "comment": draw(st.sampled_from(["", "ours"]))} for policy in mine],
            "grants": grants,
            "properties": draw(st.sampled_from([{}, {"region": "EU"}, {"region": ["EU", "US"], "x": "1"}])),
            "addresses": draw(st.lists(st.sampled_from(["203.0.113.7", "10.0.0.0/8", "::1"]), max_size=2)),
            "bytes_per_day": draw(st.integers(0, 2)),
            "ends_at": draw(st.sampled_from([None, "2031-01-01", "2032-01-01T10:00:00+02:00"])),
        }
    return Declaration.model_validate(content)


def expected_rows(declared: Declaration) -> dict[str, set[tuple[str, str]]]:
    """Return the entries that each recipient must see, from the files only; a filtered grant has only tables."""
    kinds = {"tables": "table", "views": "table", "volumes": "volume", "skills": "skill", "models": "model"}
    return {
        name: {
            (kind, f"{share}.{schema}.{entry}".lower())
            for share, grant in recipient.grants.items()
            for schema, content in declared.shares[share].schemas.items()
            for group, kind in kinds.items()
            if kind == "table" or not grant.partition_filter
            for entry in getattr(content, group)
        }
        for name, recipient in declared.recipients.items()
    }


class FilesMachine(RuleBasedStateMachine):
    """An operator with files, another with commands, and a process that may die."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self.catalog = catalog

    def teardown(self) -> None:
        self.catalog.clear()

    @rule(declared=declarations())
    def applied(self, declared: Declaration) -> None:
        before, after = self.catalog.visible_rows(), expected_rows(declared)

        def check() -> None:
            for recipient, visible in self.catalog.visible_rows().items():
                assert visible <= before.get(recipient, set()) | after.get(recipient, set())

        self.catalog.apply(declared, check)
        self._is(declared)

    @rule(declared=declarations(), kills=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=3))
    def applied_and_killed(self, declared: Declaration, kills: list[tuple[int, bool]]) -> None:
        for remaining, after in kills:
            self.catalog.client.left, self.catalog.client.after = remaining, after
            try:
                self.catalog.apply(declared)
            except Killed:
                self.catalog.now += 3600  # its lock is free by then
            finally:
                self.catalog.client.left = None
        self.catalog.apply(declared)
        self._is(declared)

    @rule(chosen=st.integers(0, 99))
    def changed_by_hand(self, chosen: int) -> None:
        admin = self.catalog.admin
        acts: list[Callable[[], object]] = [lambda: admin.shares.create("by-hand")]
        for share in admin.shares.list():
            acts.append(lambda share=share: admin.shares.update(share.name, comment="by hand"))  # type: ignore[misc]
            for table in admin.tables.list(share.name):
                name = (table.share, table.schema_name, table.name)
                acts.append(lambda name=name: admin.tables.delete(*name))  # type: ignore[misc]
        for recipient in admin.recipients.list():
            acts += [lambda recipient=recipient: admin.recipients.delete(recipient.name)]  # type: ignore[misc]
            for policy in admin.federation.list(recipient.id):
                acts.append(lambda owner=recipient, policy=policy: admin.federation.remove(owner, policy.id))  # type: ignore[misc]
            for grant in admin.grants.of_recipient(recipient.name):
                acts.append(lambda grant=grant: admin.grants.revoke(grant.recipient, grant.share))  # type: ignore[misc]
        try:
            acts[chosen % len(acts)]()
        except DeltaicError:
            return

    def _is(self, declared: Declaration) -> None:
        admin = self.catalog.admin
        exported = declaration_of(admin, files=declared)
        assert differences(declared, exported) == []
        assert differences(exported, declared) == []
        assert plan(exported, declaration_of(self.catalog.admin)).steps == []
        assert self.catalog.visible_rows() == expected_rows(declared)
        for name, recipient in declared.recipients.items():
            policies = admin.federation.list(admin.recipients.get(name).id)
            assert {(policy.id, policy.comment) for policy in policies} == {
                (policy.id, policy.comment) for policy in recipient.policies
            }


def small(tables: dict[str, Any], recipients: dict[str, Any], **shares: Any) -> Declaration:
    tables_ = {name: {"location": f"{LAKE}/one"} | fields for name, fields in tables.items()}
    share = {"schemas": {"a": {"tables": tables_}}}
    return Declaration.model_validate({"shares": {"s": share, **shares}, "recipients": recipients})


FILTERED = {"partition_filter": "p = 'EU'"}
FIRST = small(
    {"t": FILTERED, "u": {}},
    {"alice": {"grants": {"s": {}, "gone": {}}, "policies": POLICIES[:1]}, "carol": {"grants": {"s": {}}}},
    gone={"schemas": {"a": {}}},
)
SECOND = small(
    {"t": {"history": True}},
    {"alice": {"grants": {"s": FILTERED}}, "bob": {"grants": {"new": {}}, "policies": POLICIES}},
    new={"schemas": {"b": {"volumes": {"files": {"location": f"{LAKE}/volume"}}}}},
)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
def test_after_a_kill_at_any_write_a_second_apply_reaches_the_declared_catalog(catalog: Catalog, stride: int) -> None:
    """In CI, each run kills at every third write, and the runs of a few days at all of them."""
    start = random.randrange(stride)  # noqa: S311 -- any of the writes will do
    kills, before, after = start, expected_rows(FIRST), expected_rows(SECOND)
    catalog.apply(FIRST)
    first = catalog.items()
    while True:
        catalog.restore(first)
        catalog.client.left = kills
        try:
            catalog.apply(SECOND)
        except Killed:
            catalog.now += 3600  # its lock is free by then
        else:
            break
        finally:
            catalog.client.left = None
        for recipient, visible in catalog.visible_rows().items():
            assert visible <= before.get(recipient, set()) | after.get(recipient, set()), kills
        catalog.apply(SECOND)
        assert differences(SECOND, declaration_of(catalog.admin, files=SECOND)) == [], kills
        assert catalog.visible_rows() == after, kills
        kills += stride
    assert kills > len(plan(SECOND, FIRST).steps)
    catalog.clear()


@pytest.mark.slow
def test_the_catalog_equals_the_files_after_any_history(catalog: Catalog) -> None:
    class OverThisPlace(FilesMachine):
        def __init__(self) -> None:
            super().__init__(catalog)

    run_state_machine_as_test(
        OverThisPlace,
        settings=settings(
            max_examples=tries(8),
            stateful_step_count=6,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )
