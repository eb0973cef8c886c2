"""Test snippets with hostile names of tables: each language reads them only as names."""

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


def is_allowed(text: str) -> bool:
    try:
        names.check_name("table", text)
    except InvalidParameter:
        return False
    return True


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(is_allowed)


def snippets_of(name: str, share: str = "sales") -> dict[str, Snippet]:
    table = Example(ENDPOINT, "alice.share", share, "eu", name)
    return {snippet.client: snippet for snippet in snippets(table)}


def python_texts(code: str) -> list[str]:
    """Return the text literals of a Python program."""
    return [
        node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def sql_texts(code: str, dialect: str) -> list[str]:
    tokens = sqlglot.tokenize(code, dialect)
    return [token.text for token in tokens if token.token_type.name == "STRING"]


def with_attacks(test: Any) -> Any:
    """Test the names of ATTACKS in addition to generated names."""
    return reduce(lambda decorated, name: example(name=name)(decorated), ATTACKS, test)


@with_attacks
@given(name=NAMES)
def test_python_and_r_cannot_run_code_from_names(name: str) -> None:
    hostile, harmless = snippets_of(name), snippets_of("plain")
    for client in ("Python with pandas", "polars", "Spark"):
        program, harmless_program = ast.parse(hostile[client].text), ast.parse(harmless[client].text)
        assert f"alice.share#sales.eu.{name}" in python_texts(hostile[client].text)
        assert [type(node) for node in ast.walk(program)] == [type(node) for node in ast.walk(harmless_program)]
    # R's literals have the same syntax as Python's; a name must not end the line.
    last = hostile["R"].text.split("\n")[-1]
    assert ast.literal_eval(last.removeprefix("data <- sharing$load_as_pandas(")[:-1]) == f"alice.share#sales.eu.{name}"
    assert len(hostile["R"].text.split("\n")) == len(harmless["R"].text.split("\n"))


@with_attacks
@given(name=NAMES)
def test_duckdb_and_snowflake_cannot_run_code_from_names(name: str) -> None:
    hostile, harmless = snippets_of(name, name), snippets_of("plain", "plain")
    assert sql_texts(hostile["DuckDB"].text, "duckdb")[-3:] == [name, "eu", name]
    assert f"shares/{name}" in sql_texts(hostile["Snowflake"].text, "snowflake")
    for client, dialect in (("DuckDB", "duckdb"), ("Snowflake", "snowflake")):
        kinds = [
            [token.token_type for token in sqlglot.tokenize(by_client[client].text, dialect)]
            for by_client in (hostile, harmless)
        ]
        assert kinds[0] == kinds[1]
    assert isinstance(sqlglot.parse_one(hostile["DuckDB"].text.split("\n")[-1], dialect="duckdb"), exp.Select)


def test_endpoint_is_a_single_shell_argument() -> None:
    arguments = shlex.split(snippets_of("orders")["curl"].text)
    assert arguments[0] == "curl"
    assert arguments[-1] == f"{ENDPOINT}/shares"
    hostile = Example("https://x/$(id)'\"`id`", "alice.share", "s", "s", "t")
    text = next(snippet.text for snippet in snippets(hostile) if snippet.client == "curl")
    assert shlex.split(text)[-1] == f"{hostile.endpoint}/shares"


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
def test_profile_has_a_valid_file_name(recipient: str, file: str) -> None:
    assert profile_name(recipient) == file
