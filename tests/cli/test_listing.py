"""Lists are printed while they are read: page by page as text, or as one JSON array."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from deltaic.catalog.items import Share, now
from deltaic.errors import Unavailable
from deltaic_ops.cli.list_output import PAGE, print_array
from deltaic_ops.cli.operator import GlobalOptions, Operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

COLUMNS = [("NAME", lambda share: share.name), ("COMMENT", lambda share: share.comment)]


def shares(count: int, numbers: list[int]) -> Iterator[Share]:
    """Yield shares and record their numbers; then the server stops responding."""
    for number in range(count):
        numbers.append(number)
        yield Share(name=f"s{number:04}", id="i", comment="wide \N{FULLWIDTH LATIN SMALL LETTER A}", created_at=now())
    raise Unavailable("the catalog does not answer any more")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_page_is_printed_before_the_next_one_is_requested(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    operator, numbers = Operator(GlobalOptions()), list[int]()
    operator.as_json = as_json

    def looking() -> Iterator[Share]:
        for share in shares(2 * PAGE, numbers):
            if len(numbers) == PAGE + 1:
                assert f"s{PAGE - 1:04}" in capsys.readouterr().out, "the first page is printed"
            yield share

    with pytest.raises(Unavailable):
        operator.rows(looking(), COLUMNS, "nothing")
    rest = capsys.readouterr().out
    assert f"s{2 * PAGE - 1:04}" in rest
    assert not rest.rstrip().endswith("]"), "what was broken off is no array"
    assert "NAME" not in rest, "grep sees the heading once"


@pytest.mark.parametrize("count", [0, 1, PAGE, PAGE + 1])
def test_a_list_of_any_length_is_a_valid_json_array(capsys: pytest.CaptureFixture[str], count: int) -> None:
    items = [{"n": number, "text": "a\nb"} for number in range(count)]
    print_array(iter(items))
    output = capsys.readouterr().out
    assert json.loads(output) == items
    assert output == json.dumps(items, indent=2) + "\n"


def test_a_closed_pipe_ends_the_command_without_a_message(deltaic: Deltaic, admin: CatalogAdmin) -> None:
    for number in range(3):
        admin.shares.create(f"s{number}", comment="x" * 60_000)  # more than a pipe holds
    command = [sys.executable, "-c", "from deltaic_ops.cli import main; main()", "share", "list"]
    with subprocess.Popen(
        command, env=deltaic.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("NAME")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
