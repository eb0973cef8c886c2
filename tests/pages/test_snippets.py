"""Snippets with names that providers may give: each language reads them as they are, and nothing beside them."""

import ast
import shlex
from functools import reduce
from typing import Any

import pytest
import sqlglot
from deltaic.errors import InvalidParameter
from deltaic.pages.snippets import Example, Snippet, snippets
from deltaic.protocol import names
from deltaic.sign_in.activation import profile_name
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp

ENDPOINT = "https://shares.example/delta-sharing"
ATTACKS = [
    "orders",
    "o'hara",
    "');DROP_TABLE_orders;--",
    '");id("',
    "$(id)`id`${HOME}",
    "\\",
    "\\'",
    '\\"',
    "a\\\\'b\\",
    "\N{CRAB}",
    "a\N{LINE SEPARATOR}b\x85c",
    "\N{RIGHT-TO-LEFT OVERRIDE}sredro",
    "<script>alert(1)",
    "--*#",
    "{x}{{x}}%s",
]


def allowed(text: str) -> bool:
    try:
        names.check_name("table", text)
    except InvalidParameter:
        return False
    return True


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(allowed)


def of(name: str, share: str = "sales", *, is_directory: bool = True) -> dict[str, Snippet]:
    made = Example(ENDPOINT, "alice.share", share, "eu", name, is_directory)
    return {snippet.client: snippet for snippet in snippets(made)}


def python_texts(code: str) -> list[str]:
    """Return the text literals of a program; it is one by then."""
    return [
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def sql_texts(code: str, dialect: str) -> list[str]:
    tokens = sqlglot.tokenize(code, dialect)
    return [token.text for token in tokens if token.token_type.name == "STRING"]


def with_attacks(law: Any) -> Any:
    """Try these names each time, beside those that are found."""
    return reduce(lambda tried, name: example(name=name)(tried), ATTACKS, law)


@with_attacks
@given(name=NAMES)
def test_python_and_r_read_the_names_and_nothing_beside_them(name: str) -> None:
    made, plain = of(name), of("plain")
    for client in ("Python with pandas", "Spark"):
        program, known = ast.parse(made[client].text), ast.parse(plain[client].text)
        assert f"alice.share#sales.eu.{name}" in python_texts(made[client].text)
        assert [type(node) for node in ast.walk(program)] == [type(node) for node in ast.walk(known)]
    # R's literals are written as Python's are; nothing of a name ends its line.
    last = made["R"].text.split("\n")[-1]
    assert ast.literal_eval(last.removeprefix("data <- sharing$load_as_pandas(")[:-1]) == f"alice.share#sales.eu.{name}"
    assert len(made["R"].text.split("\n")) == len(plain["R"].text.split("\n"))


@with_attacks
@given(name=NAMES)
def test_duckdb_and_snowflake_read_the_names_and_nothing_beside_them(name: str) -> None:
    made, plain = of(name, name), of("plain", "plain")
    assert sql_texts(made["DuckDB"].text, "duckdb")[-3:] == [name, "eu", name]
    assert f"shares/{name}" in sql_texts(made["Snowflake"].text, "snowflake")
    for client, dialect in (("DuckDB", "duckdb"), ("Snowflake", "snowflake")):
        kinds = [[token.token_type for token in sqlglot.tokenize(one[client].text, dialect)] for one in (made, plain)]
        assert kinds[0] == kinds[1]
    assert isinstance(sqlglot.parse_one(made["DuckDB"].text.split("\n")[-1], dialect="duckdb"), exp.Select)


@with_attacks
@given(name=NAMES)
def test_polars_is_told_the_route_of_the_table(name: str) -> None:
    code = of(name)["polars"].text
    (route,) = [text for text in python_texts(code) if text.startswith("/shares/")]
    assert route.isascii()
    assert "'" not in route
    assert len(route.split("/")) == 8


def test_the_endpoint_is_one_word_of_the_shell() -> None:
    words = shlex.split(of("orders")["curl"].text)
    assert words[0] == "curl"
    assert words[-1] == f"{ENDPOINT}/shares"
    hostile = Example("https://x/$(id)'\"`id`", "alice.share", "s", "s", "t")
    text = next(one.text for one in snippets(hostile) if one.client == "curl")
    assert shlex.split(text)[-1] == f"{hostile.endpoint}/shares"


def test_no_snippet_asks_for_the_folder_of_a_table_that_is_shared_by_url() -> None:
    assert "polars" in of("orders")
    assert "polars" not in of("orders", is_directory=False)


@pytest.mark.parametrize(
    ("recipient", "file"),
    [
        ("alice", "alice.share"),
        ("Müller-Süd", "Müller-Süd.share"),
        ("a\\b:c*?", "a_b_c.share"),
        ("..", "profile.share"),
        ("'\"`", "profile.share"),
        (".hidden", "hidden.share"),
        ("x" * 255, f"{'x' * 60}.share"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}exe", "exe.share"),
    ],
)
def test_a_profile_has_a_name_that_systems_take(recipient: str, file: str) -> None:
    assert profile_name(recipient) == file
