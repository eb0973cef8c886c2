"""Test the parser of views' SQL: tables and properties, full refreshes, and errors with their place."""

import pytest
from deltaic.errors import InvalidParameter
from deltaic_pipeline.view_refresh.view_sql import RequestedProperty, TableRef, read_sql, refuse_unknown_columns

ORDERS = "sales.europe.orders"


def render(text: str, source: str = ORDERS) -> str:
    """Return the SQL with a list as <name*>, a single value as <name> and a table as [name alias]."""
    view = read_sql(text, source)

    def property_sql(requested: RequestedProperty) -> str:
        return f"<{requested.property}{'*' if requested.of_list else ''}>"

    def table_sql(table: TableRef) -> str:
        return f"[{table.table} {table.alias}]"

    return view.render(property_sql, table_sql)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* FROM source WHERE r = current_recipient('r')", "* FROM [source source] WHERE r = <r>"),
        ("a FROM source s WHERE a IN current_recipient('rs')", "a FROM [source ] s WHERE a IN (<rs*>)"),
        ("a FROM source WHERE a NOT IN (current_recipient('r'))", "a FROM [source source] WHERE a NOT IN (<r*>)"),
        ("a FROM source WHERE a IN (current_recipient('r'), 'b')", "a FROM [source source] WHERE a IN (<r>, 'b')"),
        (
            "'ü漢🦠' AS x, current_recipient('r') AS y FROM Sales.Europe.ORDERS",
            "'ü漢🦠' AS x, <r> AS y FROM [source ORDERS]",
        ),
        ("a FROM source; -- the end", "a FROM [source source]"),
        (
            "a FROM source WHERE b = \"current_recipient('r')\"",
            "a FROM [source source] WHERE b = \"current_recipient('r')\"",
        ),
        ("q.* FROM (SELECT * FROM source) q", "q.* FROM (SELECT * FROM [source source]) q"),
        ("a FROM source JOIN `a.b`.s.t x ON x.i = 1", "a FROM [source source] JOIN [a.b.s.t ] x ON x.i = 1"),
    ],
)
def test_only_properties_and_tables_are_replaced(text: str, expected: str) -> None:
    assert render(f"SELECT {text}") == f"SELECT {expected}"


COLUMNS = {"source": ["id", "amount", "place", "day", "Größe x"], "s.d.other": ["id", "name"]}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM source",
        "SELECT ID, o.Amount, place.street, o.place.street.name, `größe x` FROM source o",
        "SELECT id AS n, n + 1 AS m FROM source WHERE amount BETWEEN 1 AND 2 AND NOT day = current_date",
        "SELECT source.id, s.d.other.name, orders.day, name AS x FROM source JOIN s.d.other USING (id)",
        "SELECT user, current_date, DATE '2026-01-01' AS d, \"text\" AS t, 3L AS l, INTERVAL 1 DAY AS i FROM source",
        "SELECT date_add(MONTH, 1, day) AS d, transform(place.x, y -> y + z) AS a, _metadata.file_path FROM source",
        "SELECT a FROM source AS s (a, b, c, d, e)",
        "SELECT a FROM (SELECT id AS a FROM source)",
        "WITH w AS (SELECT id AS a FROM source) SELECT a FROM w",
        "SELECT id, y FROM source LATERAL VIEW explode(place) t AS y",
        "SELECT id AS n FROM source GROUP BY n",
        "SELECT CAST(id AS STRING) AS a, id::STRING AS b, current_recipient('r') AS r FROM sales.europe.orders",
    ],
)
def test_columns_that_can_exist_are_not_refused(text: str) -> None:
    refuse_unknown_columns(text, ORDERS, COLUMNS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT id, ammount FROM source",
            "line 1, column 12 of the view's SQL: 'ammount' is not a column of source: did",
        ),
        ("SELECT id\nFROM source\nWHERE dya > '2026'", "line 3, column 7 of the view's SQL: 'dya' is not a column of"),
        (
            "SELECT o.nme FROM source s JOIN s.d.other o ON s.id = o.id",
            "'nme' is not a column of o: did you mean name?",
        ),
        ("SELECT id FROM source JOIN s.d.other o ON source.id = o.key", "'key' is not a column of o"),
        ("SELECT orders.ids FROM sales.europe.orders", "'ids' is not a column of orders"),
        (
            "SELECT (amount + tax) * 2 AS total FROM source JOIN s.d.other USING (id)",
            "'tax' is not a column of source or",
        ),
        ("SELECT CAST(groesse AS INT) AS g FROM source", "'groesse' is not a column of source"),
    ],
)
def test_unknown_column_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        refuse_unknown_columns(text, ORDERS, COLUMNS)
    assert message in refusal.value.message


def test_properties_and_other_tables_are_reported_once() -> None:
    view = read_sql(
        "SELECT s.a FROM source s JOIN a.b.c t ON s.i = t.i JOIN A.B.C u ON u.i = t.i "
        "WHERE s.r = current_recipient('r') OR s.q = current_recipient('r') OR s.p IN current_recipient('p')"
    )
    assert view.properties == {"r", "p"}
    assert view.tables == ("a.b.c",)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM source",
        "SELECT * EXCEPT (a), upper(b) AS b FROM source WHERE c > 1 AND NOT d IS NULL",
        "SELECT CASE WHEN r = current_recipient('r') THEN e ELSE '*' END AS e FROM source AS s",
        "SELECT transform(xs, x -> x + 1) AS xs, m['k'] AS k FROM source",
        "FROM source SELECT a",
        "SELECT a FROM source WHERE d > TIMESTAMP'epoch' AND day = 'todays' AND b <> 'not now'",
    ],
)
def test_columns_and_a_where_are_refreshed_incrementally(text: str) -> None:
    view = read_sql(text)
    assert view.one_pass
    assert not view.why_full


@pytest.mark.parametrize(
    ("text", "why", "one_pass"),
    [
        ("SELECT count(*) AS n FROM source", "aggregates", False),
        ("SELECT a FROM source GROUP BY a", "aggregates", False),
        ("SELECT DISTINCT a FROM source", "aggregates", False),
        ("SELECT a FROM source ORDER BY a LIMIT 3", "limits", False),
        ("SELECT a, row_number() OVER (ORDER BY a) AS r FROM source", "window", False),
        ("SELECT a FROM source UNION ALL SELECT b FROM source", "SELECTs", False),
        ("SELECT a FROM source WHERE a IN (SELECT max(a) FROM source)", "several tables", False),
        ("SELECT a FROM (SELECT a FROM source)", "subquery", False),
        ("WITH q AS (SELECT a FROM source) SELECT a FROM q", "more than columns", False),
        ("SELECT explode(xs) AS x FROM source", "several rows", False),
        ("SELECT a FROM source LATERAL VIEW explode(xs) t AS x", "more than columns", False),
        ("SELECT s.a FROM source s JOIN a.b.c t ON s.i = t.i", "several tables", True),
        ("SELECT s.a FROM source s LEFT JOIN a.b.c t ON s.i = t.i", "several tables", True),
        ("SELECT s.a FROM source s FULL OUTER JOIN a.b.c t ON s.i = t.i", "several tables", False),
        ("SELECT a FROM source WHERE d > current_date", "time", True),
        ("SELECT a FROM source WHERE d > now() - INTERVAL 1 DAY", "time", True),
        ("SELECT a FROM source WHERE d = DATE'today'", "time", True),
        ("SELECT a FROM source WHERE d = TIMESTAMP'today UTC'", "time", True),
        ("SELECT a FROM source WHERE d < timestamp_ntz ' ToMorrow  Europe/Berlin'", "time", True),
        ("SELECT a FROM source WHERE d > CAST('yesterday+01:00' AS TIMESTAMP)", "time", True),
        (r"SELECT a FROM source WHERE d = TIMESTAMP'\u0074oday'", "time", True),
        (r"SELECT a FROM source WHERE d = TIMESTAMP'\164oday UTC'", "time", True),
    ],
)
def test_other_sql_is_computed_in_full_with_a_reason(text: str, why: str, one_pass: bool) -> None:
    view = read_sql(text)
    assert why in view.why_full
    assert view.one_pass == one_pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DELETE FROM source", "one SELECT"),
        ("INSERT INTO x SELECT a FROM source", "one SELECT"),
        ("SELECT a FROM source; SELECT b FROM source", "one SELECT"),
        ("SELECT a INTO b FROM source", "cannot write"),
        ("SELECT TRANSFORM(a) USING 'sh' AS b FROM source", "run programs"),
        ("SELEC a FROM source", "line 1, column 12"),
        ("SELECT a FROM source WHERE b = 'open", "not closed"),
        ("SELECT 1 AS a", "does not read `source`"),
        ("SELECT a\nFROM source JOIN other ON true", "line 2, column 18 of the view's SQL: 'other' is not a shared"),
        ("SELECT a FROM source, parquet.`s3://b/c`", "line 1, column 23"),
        ("SELECT a FROM source, a.b.c.d", "in backticks"),
        ("SELECT a FROM source, range(10)", "no table functions or files"),
        ("SELECT a FROM source, read_files('s3://b')", "no table functions or files"),
        ("SELECT a FROM source, IDENTIFIER('a.b.c')", "no table functions or files"),
        ("SELECT a FROM source VERSION AS OF 3", "Remove VERSION AS OF"),
        ("SELECT a FROM source TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT uuid() AS a FROM source", "line 1, column 8 of the view's SQL: uuid() returns another value"),
        ("SELECT a FROM source WHERE rand() < 0.5", "rand()"),
        ("SELECT monotonically_increasing_id() AS a FROM source", "monotonically_increasing_id()"),
        ("SELECT reflect('java.lang.System', 'getenv') AS a FROM source", "reflect()"),
        ("SELECT current_user() AS a FROM source", "current_recipient"),
        ("SELECT a AS _deltaic_policy FROM source", "are reserved"),
        ("SELECT a FROM source WHERE r = current_recipient(name)", "line 1, column 32"),
        ("SELECT a FROM source WHERE r = current_recipient()", "current_recipient('region')"),
        ("SELECT a FROM source WHERE r = current_recipient", "current_recipient('region')"),
        ("SELECT a, current_recipient('r') FROM source", "add AS name"),
        ("WITH source AS (SELECT 1) SELECT * FROM source", "Rename it"),
    ],
)  # fmt: skip
def test_unsuitable_sql_is_refused_with_a_remedy(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter) as refusal:
        read_sql(text, ORDERS)
    assert message in refusal.value.message
