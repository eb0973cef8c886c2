"""Test that redacted predicates contain columns and operators, but no text of the recipient."""

import pytest
from deltaic.pruning.json_hints import parse_json
from deltaic.pruning.redacted_predicate import redacted_predicate
from deltaic.pruning.sql_hints import parse_sql
from hypothesis import given
from hypothesis import strategies as st
from pruning.test_skipper import column, table

METADATA = table(column("Day", "date"), column("site", "string"), column("n", "long"))


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("day = '2026-01-01'", "day = ?"),
        ("site IN ('Turku', 'Gdansk') AND n >= 5", "site IN (?) AND n >= ?"),
        ("n < 1 OR (n > 9 AND site IS NULL)", "n < ? OR (n > ? AND site IS NULL)"),
        ("NOT (n = 5)", "NOT (n = ?)"),
        ("patient_4711 = 1", "? = ?"),
        ("CAST(n AS STRING) = 'x'", "n = ?"),
    ],
)
def test_values_are_redacted(hint: str, expected: str) -> None:
    predicate = parse_sql([hint])
    assert predicate is not None
    assert redacted_predicate(predicate, METADATA) == expected


def test_json_hints_are_redacted() -> None:
    leaf = '{"op":"column","name":"n","valueType":"long"}, {"op":"literal","value":"4711","valueType":"long"}'
    predicate = parse_json(f'{{"op":"equal","children":[{leaf}]}}')
    assert predicate is not None
    assert redacted_predicate(predicate, METADATA) == "n = ?"


@given(st.text("abcdefghij", min_size=5), st.sampled_from(["site = '{}'", "{} = 'x'", "site IN ('{}') OR n = 1"]))
def test_no_text_of_the_recipient_remains(secret: str, hint: str) -> None:
    predicate = parse_sql([hint.format(secret)])
    assert predicate is None or secret not in redacted_predicate(predicate, METADATA)


def test_a_long_predicate_is_cut() -> None:
    predicate = parse_sql([" OR ".join(f"n = {number}" for number in range(400))])
    assert predicate is not None
    assert len(redacted_predicate(predicate, METADATA)) < 1010
