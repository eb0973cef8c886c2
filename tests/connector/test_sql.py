"""Test SQL on shared tables: created by location, filtered, aggregated, joined; profiles as options."""

import json
from collections.abc import Callable, Iterator, Mapping

import pytest
from client.golden_shares import FORMATS, Shared
from client.provider import SCHEMA, SHARE

from connector.sharing import Connector, rows

pytestmark = [
    pytest.mark.connector,
    # pyspark leaves the sockets of collected rows to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

QUERIES = (
    "SELECT * FROM {all_types}",
    "SELECT count(*) AS n, count(d) AS d, max(i64) AS most, min(ts) AS first FROM {all_types}",
    "SELECT id, st.deep.x AS x, arr[0] AS a FROM {all_types} WHERE b",
    "SELECT id FROM {all_types} WHERE st.a = 1 OR day > DATE'2026-01-01' ORDER BY id LIMIT 2",
    "SELECT s, count(*) AS n FROM {partitioned_types} GROUP BY s HAVING count(*) >= 1",
    "SELECT DISTINCT i FROM {partitioned_types}",
    "SELECT a.id AS one, b.id AS other FROM {all_types} AS a JOIN {partitioned_types} AS b ON a.id = b.id",
    "SELECT id FROM {all_types} WHERE id IN (SELECT id FROM {deletion_vectors} WHERE id > 1)",
    "SELECT a.id AS id FROM {partitioned_types} AS a LEFT ANTI JOIN {all_types} AS b ON a.id = b.id",
    "SELECT id FROM {all_types} UNION ALL SELECT id FROM {deletion_vectors}",
    "WITH known AS (SELECT max(id) AS most FROM {deletion_vectors}) SELECT * FROM {all_types}, known WHERE id < most",
)
NAMES = ("all_types", "partitioned_types", "deletion_vectors")


@pytest.fixture(scope="module", params=["auto", *FORMATS])
def tables(
    connector: Connector, shared: Callable[[str], Shared], request: pytest.FixtureRequest
) -> Iterator[tuple[Connector, Mapping[str, str], Mapping[str, str]]]:
    """Create the tables in Spark's catalog; return their names, and the direct names of their folders."""
    shared_tables = {name: shared(name) for name in NAMES}
    created = {name: f"{name}_{request.param}" for name in NAMES}
    for name, table in shared_tables.items():
        # Tables that parquet format cannot represent are read in the format that the server selects.
        refusal = table.refused_features(table.golden.versions[-1], request.param)
        options = "" if refusal or request.param == "auto" else f"OPTIONS (responseFormat '{request.param}')"
        url = connector.provider.url(table.name)
        connector.spark.sql(f"CREATE TABLE {created[name]} USING deltaSharing {options} LOCATION '{url}'")
    yield connector, created, {name: f"delta.`{table.folder}`" for name, table in shared_tables.items()}
    for name in created.values():
        connector.spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("query", QUERIES)
def test_query_has_the_same_result_as_on_the_table(
    tables: tuple[Connector, Mapping[str, str], Mapping[str, str]], query: str
) -> None:
    connector, created, direct = tables
    assert rows(connector.spark.sql(query.format_map(created))) == rows(connector.spark.sql(query.format_map(direct)))


def test_profile_can_be_passed_as_options(connector: Connector, shared: Callable[[str], Shared]) -> None:
    table = shared("plain")
    profile = json.loads(connector.provider.profile.read_text(encoding="utf-8"))
    options = {name: str(profile[name]) for name in ("shareCredentialsVersion", "endpoint", "bearerToken")}
    frame = connector.reader(**options).load(f"{SHARE}.{SCHEMA}.{table.name}")
    assert rows(frame) == rows(table.golden.rows(table.golden.versions[-1]))


def test_unshared_table_is_refused_with_the_error_of_the_server(connector: Connector) -> None:
    with pytest.raises(Exception, match="RESOURCE_DOES_NOT_EXIST"):
        connector.read("nothing")
