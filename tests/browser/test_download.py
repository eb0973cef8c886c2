"""Test the download of a million rows as CSV, with constant memory in the server."""

import csv
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from browser.conftest import open_page
from client.provider import Provider
from playwright.sync_api import Browser, expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROWS = 1_000_000
LAST = ["1972-09-26", "2025-12-29T09:20:00.999999Z", f"customer {(ROWS - 1) % 50_000}"]
"""Text of the last row after the first two columns."""
PAGE_BYTES = 1_000_000_000
SERVER_BYTES = 30_000_000
"""Maximum additional memory of the gateway."""


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def peak_bytes(pid: int) -> int:
    [line] = [text for text in Path(f"/proc/{pid}/status").read_text().splitlines() if text.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def renderers() -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                arguments = (folder / "cmdline").read_bytes().replace(b"\0", b" ").split()
            except OSError:
                continue
            if b"--type=renderer" in arguments:
                yield int(folder.name)


def test_million_rows_are_downloaded_as_csv(browser: Browser, provider: Provider, tmp_path: Path) -> None:
    table = pa.table({
        "id": pa.array(range(ROWS), pa.int64()),
        "amount": pa.array((number * 0.25 for number in range(ROWS)), pa.float64()),
        "day": pa.array((number % 9000 for number in range(ROWS)), pa.int32()).cast(pa.date32()),
        "at": pa.array((1_767_000_000_000_000 + number for number in range(ROWS)), pa.timestamp("us", "UTC")),
        "name": pa.array(f"customer {number % 50_000}" for number in range(ROWS)),
    })  # fmt: skip
    folder = tmp_path / "million"
    deltalake.write_deltalake(str(folder), table)
    provider.put("million", folder)
    before = set(renderers())
    gateway = provider.stack.processes["gateway"]
    with open_page(browser, "about:blank") as page:
        page.add_init_script("delete window.showSaveFilePicker")
        page.goto(f"{provider.endpoint}/explore")
        page.set_input_files("#file", str(provider.profile))
        page.get_by_role("navigation").get_by_role("button", name="million", exact=True).click()
        expect(page.locator("#count")).to_contain_text("The first 200 rows")
        served = resident_bytes(gateway)
        with page.expect_download(timeout=120_000) as download:
            page.get_by_role("button", name="CSV", exact=True).click()
        used = [peak_bytes(pid) for pid in renderers() if pid not in before]
        grown = peak_bytes(gateway) - served
        check(download.value.path(), table)
    assert 0 < max(used) < PAGE_BYTES
    assert grown < SERVER_BYTES


def check(file: Path, table: pa.Table) -> None:
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines)
        assert next(reader) == table.column_names
        row: list[str] = []
        for number, row in enumerate(reader):
            assert row[0] == str(number)
            assert float(row[1]) == number * 0.25
    assert row == [str(ROWS - 1), str((ROWS - 1) * 0.25).removesuffix(".0"), *LAST]
