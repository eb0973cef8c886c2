"""The catalog on both implementations of DynamoDB: the embedded AWS, and Amazon's own DynamoDB Local."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from catalog import schema
from catalog.dynamodb_local import started
from deltaic.catalog import keys
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.credentials.oauth_clients import ClientStore
from deltaic.catalog.credentials.policies import Policies
from deltaic.catalog.credentials.token_admin import TokenAdmin
from deltaic.catalog.credentials.tokens import TokenStore
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.leases import Leases
from deltaic.catalog.reader import CatalogReader
from deltaic.catalog.submitted_queries import QueryStore
from deltaic_ops.local.embedded import EmbeddedAws

REAL = pytest.param("dynamodb_local", marks=pytest.mark.dynamodb_local, id="dynamodb_local")
# One connection for each thread of the concurrency tests.
CONFIG = Config(max_pool_connections=32, retries={"total_max_attempts": 2, "mode": "standard"})


@dataclass(frozen=True)
class Catalog:
    """Empty catalog, with access for administrators, endpoints and the authorizer."""

    catalog_table: str
    tokens_table: str
    dynamo: Dynamo

    @property
    def admin(self) -> CatalogAdmin:
        return CatalogAdmin(self.catalog_table, self.tokens_table, self.dynamo)

    @property
    def reader(self) -> CatalogReader:
        return CatalogReader(self.catalog_table, self.dynamo)

    def tokens(self, clock: Callable[[], float] = time.time) -> TokenStore:
        return TokenStore(self.tokens_table, self.dynamo, clock)

    def token_admin(self, clock: Callable[[], float] = time.time) -> TokenAdmin:
        return TokenAdmin(self.catalog_table, self.tokens_table, self.dynamo, clock=clock)

    def client_store(self) -> ClientStore:
        return ClientStore(self.tokens_table, self.dynamo)

    def policies(self) -> Policies:
        return Policies(self.tokens_table, self.dynamo)

    def leases(self, clock: Callable[[], float] = time.time) -> Leases:
        return Leases(self.catalog_table, self.dynamo, clock)

    def queries(self, clock: Callable[[], float] = time.time, **options: Any) -> QueryStore:
        return QueryStore(self.catalog_table, self.dynamo, clock, **options)

    def items(self) -> list[dict[str, Any]]:
        """Return all items of both tables, except the counters for checks of overlapping folders."""
        items = [*self._scan(self.catalog_table), *self._scan(self.tokens_table)]
        return [item for item in items if item["sk"]["S"] != keys.OVERLAPS.sk]

    def clear(self) -> None:
        """Delete all items of both tables."""
        for table in (self.catalog_table, self.tokens_table):
            items = self._scan(table)
            for start in range(0, len(items), 25):  # the limit of BatchWriteItem
                keys = [{"pk": item["pk"], "sk": item["sk"]} for item in items[start : start + 25]]
                deletions: Any = [{"DeleteRequest": {"Key": key}} for key in keys]
                answer = self.dynamo.client.batch_write_item(RequestItems={table: deletions})
                assert not answer["UnprocessedItems"]

    def _scan(self, table: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        position: dict[str, Any] = {}
        while True:
            page = self.dynamo.client.scan(TableName=table, ConsistentRead=True, **position)
            items += page["Items"]
            if "LastEvaluatedKey" not in page:
                return items
            position = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


@pytest.fixture(scope="session", params=[pytest.param("embedded_aws", id="embedded"), REAL])
def dynamo(request: pytest.FixtureRequest) -> Dynamo:
    """Return a connection to one implementation; every test that uses it runs on both."""
    started: EmbeddedAws | str = request.getfixturevalue(request.param)
    endpoint = started if isinstance(started, str) else started.endpoint
    environment = started.environment if isinstance(started, EmbeddedAws) else {}
    client = boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID", "local"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY", "local"),
        config=CONFIG,
    )
    return Dynamo(lambda: client)


@pytest.fixture(scope="session")
def empty_catalog(dynamo: Dynamo) -> Catalog:
    """Return a catalog whose tables all tests use, one test after the other."""
    unique = uuid4().hex
    catalog = Catalog(f"catalog-{unique}", f"tokens-{unique}", dynamo)
    schema.create(dynamo.client, catalog.catalog_table, catalog.tokens_table)
    return catalog


@pytest.fixture
def catalog(empty_catalog: Catalog) -> Iterator[Catalog]:
    """Return an empty catalog."""
    assert empty_catalog.items() == []
    yield empty_catalog
    empty_catalog.clear()


@pytest.fixture(scope="session")
def secrets_manager(aws_session: boto3.Session, embedded_aws: EmbeddedAws) -> Any:
    """Return Secrets Manager of the embedded AWS."""
    return aws_session.client("secretsmanager", endpoint_url=embedded_aws.endpoint)


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the endpoint of DynamoDB Local, Amazon's implementation of expressions and transactions."""
    with started(tmp_path_factory.mktemp("dynamodb-local")) as port:
        yield f"http://127.0.0.1:{port}"
