"""CSV files of `deltaic pull` have the bytes that docs/recipients.md states, and formulas are escaped on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from delta_sharing_pull.csv_columns import csv_lines
from delta_sharing_pull.errors import UnsupportedOperation
from pull.csv_table import EXPECTED, FORMULAS, guarded, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Deltaic
    from client.provider import Provider


@pytest.fixture(scope="module")
def csv_url(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Share the table and return its URL."""
    folder = tmp_path_factory.mktemp("csv") / "table"
    write_table(folder)
    return provider.put("csv", folder)


def test_file_has_the_documented_bytes_and_formulas_are_counted(deltaic: Deltaic, csv_url: str, tmp_path: Path) -> None:
    printed = deltaic(f"pull {csv_url} out.csv")
    assert (tmp_path / "out.csv").read_bytes() == EXPECTED
    assert f"{len(FORMULAS)} texts begin with =, +, - or @" in printed.stderr
    assert "add --guard-formulas" in printed.stderr
    assert deltaic.json(f"pull {csv_url} out.csv")["formulas"] == len(FORMULAS)


def test_formulas_are_escaped_on_request(deltaic: Deltaic, csv_url: str, tmp_path: Path) -> None:
    printed = deltaic(f"pull {csv_url} out.csv --guard-formulas")
    assert (tmp_path / "out.csv").read_bytes() == guarded()
    assert "texts begin with" not in printed.stderr
    refused = deltaic(f"pull {csv_url} out.parquet --guard-formulas")
    assert (refused.exit_code, "requires a .csv file: 'out.parquet'" in refused.stderr) == (1, True)


def test_table_without_rows_has_a_header(deltaic: Deltaic, csv_url: str, tmp_path: Path) -> None:
    deltaic.done(f"pull {csv_url} out.csv --limit 0 --column double")
    assert (tmp_path / "out.csv").read_bytes() == b"double\r\n"


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC")])
def test_year_that_arrow_cannot_print_is_refused(kind: pa.DataType) -> None:
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    largest = pa.array([2**31 - 1 if storage == pa.int32() else 2**63 - 1], storage).cast(kind)
    batch = pa.record_batch([largest], ["day"])
    with pytest.raises(UnsupportedOperation, match="year beyond 32767 in column 'day'"):
        csv_lines(batch, guard_formulas=False)
