"""The page of what holds of the protocol."""

from datetime import UTC, datetime

from bench.conformance import chapter
from delta_sharing_conformance.run import CheckResult

OURS = [
    CheckResult("lists shares", "List Shares", "holds", "2 shares"),
    CheckResult("pages", "File", "not tried", "no | file"),
]
THEIRS = [
    CheckResult("lists shares", "List Shares", "fails", "GET /shares answers 500", "Answer with 200."),
    CheckResult("pages", "File", "holds", "1 table"),
]
AT = datetime(2026, 11, 22, tzinfo=UTC)


def test_it_has_a_row_for_each_check_and_says_how_another_server_fails() -> None:
    text = chapter(OURS, THEIRS, "commit 1", AT)
    assert "on 2026-11-22" in text
    assert "commit 1" in text
    assert "| List Shares | lists shares | holds | **fails** |" in text
    assert "## Where the reference server fails\n\n* lists shares (List Shares): GET /shares answers 500\n" in text
    assert "## What was not tried of Deltaic\n\n* pages (File): no \\| file\n" in text
    assert "Where Deltaic fails" not in text


def test_without_another_server_there_is_one_column() -> None:
    text = chapter(OURS, [], "", AT)
    assert "| List Shares | lists shares | holds |\n" in text
    assert "reference" not in text
