"""Test with random changes of a source that a refreshed view and its feed have the SQL's rows.

A run of the tests tries one sequence; `DELTAIC_VIEWS=40` tries 40 longer ones.
"""

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from views.made import SampleView, Values, apply_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SEQUENCES = int(os.environ.get("DELTAIC_VIEWS", "1"))
STEPS = 1 if SEQUENCES < 10 else 6

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
    """Return one row for VALUES; ids and complete rows can repeat."""
    region = draw(st.one_of(st.none(), regions))
    v = draw(st.sampled_from(["NULL", "0.5", "double('NaN')"]))
    m = draw(st.sampled_from(["NULL", "map('a', 1, 'b', NULL)", "map('b', NULL, 'a', 1)"]))
    n = draw(numbers)
    region_sql = "NULL" if region is None else text(region)
    return f"({draw(ids)}, {region_sql}, {'NULL' if n is None else n}, {v}, {m})"


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Return one commit of the source."""
    new_rows = ", ".join(draw(st.lists(rows(st.integers(0, 5)), min_size=1, max_size=4)))
    least, region = draw(st.integers(0, 5)), text(draw(regions))
    names = "id, region, n, v, m"
    merge = (
        "MERGE INTO {source} old USING (SELECT id, max(region) AS region FROM VALUES "  # noqa: S608
        f"{new_rows} AS t({names}) GROUP BY id) new ON old.id = new.id WHEN MATCHED AND old.n > 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET region = new.region "
        "WHEN NOT MATCHED THEN INSERT (id, region) VALUES (new.id, new.region)"
    )
    commits = [
        f"INSERT INTO {{source}} ({names}) VALUES {new_rows}",  # noqa: S608
        f"DELETE FROM {{source}} WHERE id = {least}",  # noqa: S608
        f"UPDATE {{source}} SET region = {region} WHERE id >= {least}",  # noqa: S608
        f"UPDATE {{source}} SET n = n + 1, v = NULL WHERE region = {region}",  # noqa: S608
        f"INSERT OVERWRITE {{source}} ({names}) SELECT {names} FROM {{source}} WHERE id <> {least} OR n IS NULL",  # noqa: S608
        "OPTIMIZE {source}",
        "ALTER TABLE {source} ADD COLUMNS (later INT)",
        merge,
    ]
    return draw(st.sampled_from(commits))


@st.composite
def audiences(draw: st.DrawFn) -> dict[str, Values]:
    """Return audiences with names that are derived from their values, like digests."""
    by_name: dict[str, Values] = {}
    for _ in range(draw(st.integers(1, 3))):
        region, least = draw(regions), draw(st.sampled_from(["0", "2"]))
        items = tuple(sorted(draw(st.sets(regions, min_size=1, max_size=3))))
        name = f"{region.encode().hex()}-{least}-{'_'.join(item.encode().hex() for item in items)}"
        by_name[name] = {"region": region, "least": least, "all": items}
    return by_name


@settings(
    max_examples=SEQUENCES, deadline=None, suppress_health_check=list(HealthCheck), report_multiple_bugs=False
)  # a refresh takes seconds
# Hypothesis tries the simplest sequence first, which shows little, so it is filtered out.
@given(
    data=st.data(),
    sql=st.sampled_from(SQLS),
    partitioned=st.booleans(),
    vectors=st.booleans(),
    seed=st.integers(0, 1 << 32).filter(bool),
)
def test_rows_equal_the_sql_and_the_feed_leads_to_them(  # noqa: PLR0917 -- pytest passes by name
    spark: "SparkSession",
    tmp_path_factory: pytest.TempPathFactory,
    data: Any,
    sql: str,
    partitioned: bool,
    vectors: bool,
    seed: int,
) -> None:
    assert seed
    view = SampleView(spark, tmp_path_factory.mktemp("law"), sql)
    using = f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    view.run(
        f"CREATE TABLE {{source}} ({COLUMNS}) USING delta {'PARTITIONED BY (region)' if partitioned else ''} {using}"
    )
    first = ", ".join(data.draw(st.lists(rows(st.integers(0, 5)), min_size=1, max_size=8), label="first"))
    view.run(f"INSERT INTO {{source}} VALUES {first}")  # noqa: S608
    requested = data.draw(audiences(), label="audiences")
    view.refresh(requested)
    assert view.rows() == view.expected(requested)
    grown = False
    for _ in range(STEPS):
        for statement in data.draw(st.lists(statements(), min_size=0, max_size=3), label="commits"):
            if not (statement.startswith("ALTER") and grown):
                view.run(statement)
            grown |= statement.startswith("ALTER")
        if data.draw(st.booleans(), label="others"):
            requested = data.draw(audiences(), label="audiences")
        _check_refresh(view, requested)


def _check_refresh(view: SampleView, requested: dict[str, Values]) -> None:
    before, at = view.rows(), view.version()
    result = view.refresh(requested)
    after = view.rows()
    assert after == view.expected(requested)
    assert result.rows == {audience: sum(_of(after, audience).values()) for audience in requested}
    if result.version > at:
        changes = view.changes(result.version)
        assert apply_changes(before, changes) == after
        gained = Counter(row for kind, row in changes if kind in {"insert", "update_postimage"})
        lost = Counter(row for kind, row in changes if kind in {"delete", "update_preimage"})
        assert not gained.keys() & lost.keys()
    latest = view.version()
    assert view.refresh(requested).version <= latest == view.version()


def _of(rows: Counter[str], audience: str) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if f"'_deltaic_policy': '{audience}'" in row})
