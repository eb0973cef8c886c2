"""Whatever happens to a source, a refreshed view holds what its SQL says of each audience, and its feed leads there.

A few sequences in every run of the tests; `DELTAIC_VIEWS=40` tries as many, of more steps.
"""

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from views.made import Made, Values, applied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TRIED = int(os.environ.get("DELTAIC_VIEWS", "1"))
STEPS = 2 if TRIED < 10 else 6

REGIONS = ("EU", "US", "eu", "it's", "", "\\ü")
COLUMNS = "id INT, region STRING, n INT, v DOUBLE, m MAP<STRING, INT>"
SQLS = (
    "SELECT * FROM source WHERE region = current_recipient('region')",
    "SELECT id, n, v FROM source s WHERE s.region IN current_recipient('all') AND (n IS NULL OR n < 3)",
    "SELECT id, CASE WHEN region <=> current_recipient('region') THEN n ELSE -1 END AS n, m FROM source",
    "SELECT id, concat(region, current_recipient('region')) b FROM source WHERE region NOT IN current_recipient('all')",
    "SELECT region FROM source WHERE n >= current_recipient('least') OR region = current_recipient('region')",
    "SELECT region, count(*) AS c, sum(n) AS n FROM source WHERE region IN current_recipient('all') GROUP BY region",
)

regions = st.sampled_from(REGIONS)
numbers = st.one_of(st.none(), st.integers(0, 4))


def text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@st.composite
def rows(draw: st.DrawFn, ids: st.SearchStrategy[int]) -> str:
    """Return one row as VALUES take it; ids repeat, and so do whole rows."""
    region = draw(st.one_of(st.none(), regions))
    v = draw(st.sampled_from(["NULL", "0.5", "double('NaN')"]))
    m = draw(st.sampled_from(["NULL", "map('a', 1, 'b', NULL)", "map('b', NULL, 'a', 1)"]))
    n = draw(numbers)
    said = "NULL" if region is None else text(region)
    return f"({draw(ids)}, {said}, {'NULL' if n is None else n}, {v}, {m})"


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Return one commit of the source."""
    some = ", ".join(draw(st.lists(rows(st.integers(0, 5)), min_size=1, max_size=4)))
    least, region = draw(st.integers(0, 5)), text(draw(regions))
    names = "id, region, n, v, m"
    merged = (
        "MERGE INTO {source} old USING (SELECT id, max(region) AS region FROM VALUES "  # noqa: S608
        f"{some} AS t({names}) GROUP BY id) new ON old.id = new.id WHEN MATCHED AND old.n > 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET region = new.region "
        "WHEN NOT MATCHED THEN INSERT (id, region) VALUES (new.id, new.region)"
    )
    commits = [
        f"INSERT INTO {{source}} ({names}) VALUES {some}",  # noqa: S608
        f"DELETE FROM {{source}} WHERE id = {least}",  # noqa: S608
        f"UPDATE {{source}} SET region = {region} WHERE id >= {least}",  # noqa: S608
        f"UPDATE {{source}} SET n = n + 1, v = NULL WHERE region = {region}",  # noqa: S608
        f"INSERT OVERWRITE {{source}} ({names}) SELECT {names} FROM {{source}} WHERE id <> {least} OR n IS NULL",  # noqa: S608
        "OPTIMIZE {source}",
        "ALTER TABLE {source} ADD COLUMNS (later INT)",
        merged,
    ]
    return draw(st.sampled_from(commits))


@st.composite
def audiences(draw: st.DrawFn) -> dict[str, Values]:
    """Return audiences by names that stand for their values, as digests do."""
    found: dict[str, Values] = {}
    for _ in range(draw(st.integers(1, 3))):
        region, least = draw(regions), draw(st.sampled_from(["0", "2"]))
        listed = tuple(sorted(draw(st.sets(regions, min_size=1, max_size=3))))
        name = f"{region.encode().hex()}-{least}-{'_'.join(one.encode().hex() for one in listed)}"
        found[name] = {"region": region, "least": least, "all": listed}
    return found


@settings(
    max_examples=TRIED, deadline=None, suppress_health_check=list(HealthCheck), report_multiple_bugs=False
)  # a refresh takes seconds
# The simplest sequence of all is tried first, and shows little: it does not count.
@given(
    data=st.data(),
    sql=st.sampled_from(SQLS),
    partitioned=st.booleans(),
    vectors=st.booleans(),
    tried=st.integers(0, 1 << 32).filter(bool),
)
def test_rows_are_the_sqls_and_the_feed_leads_to_them(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    tmp_path_factory: pytest.TempPathFactory,
    data: Any,
    sql: str,
    partitioned: bool,
    vectors: bool,
    tried: int,
) -> None:
    assert tried
    made = Made(spark, tmp_path_factory.mktemp("law"), sql)
    using = f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    made.run(
        f"CREATE TABLE {{source}} ({COLUMNS}) USING delta {'PARTITIONED BY (region)' if partitioned else ''} {using}"
    )
    first = ", ".join(data.draw(st.lists(rows(st.integers(0, 5)), min_size=1, max_size=8), label="first"))
    made.run(f"INSERT INTO {{source}} VALUES {first}")  # noqa: S608
    wanted = data.draw(audiences(), label="wanted")
    made.refresh(wanted)
    assert made.rows() == made.expected(wanted)
    grown = False
    for _ in range(STEPS):
        for statement in data.draw(st.lists(statements(), min_size=0, max_size=3), label="commits"):
            if not (statement.startswith("ALTER") and grown):
                made.run(statement)
            grown |= statement.startswith("ALTER")
        if data.draw(st.booleans(), label="others"):
            wanted = data.draw(audiences(), label="wanted")
        _refreshed(made, wanted)


def _refreshed(made: Made, wanted: dict[str, Values]) -> None:
    before, at = made.rows(), made.version()
    found = made.refresh(wanted)
    after = made.rows()
    assert after == made.expected(wanted)
    assert found.rows == {audience: sum(_of(after, audience).values()) for audience in wanted}
    if found.version > at:
        changes = made.changes(found.version)
        assert applied(before, changes) == after
        gained = Counter(row for kind, row in changes if kind in {"insert", "update_postimage"})
        lost = Counter(row for kind, row in changes if kind in {"delete", "update_preimage"})
        assert not gained.keys() & lost.keys()
    latest = made.version()
    assert made.refresh(wanted).version <= latest == made.version()


def _of(rows: Counter[str], audience: str) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if f"'_deltaic_policy': '{audience}'" in row})
