"""The report of the usage table: what was asked and fetched, for people, for scripts and for browsers."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from deltaic.errors import NotFound
from deltaic_ops.usage.plots import page
from deltaic_ops.usage.usage_report import report
from deltaic_pipeline.usage_log.log_lines import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Deltaic

TODAY = date(2026, 11, 22)
HERE = {"AWS_ACCESS_KEY_ID": "none"}
HOSTILE = "eve</title><script>alert(1)</script>&\"'"
TYPES = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}


def nothing(_share: str) -> list[str]:
    """Return what an empty catalog has in a share."""
    return []


def row(kind: str, recipient: str | None, day: int = 22, **more: Any) -> dict[str, Any]:
    fields = {"kind": kind, "recipient": recipient, "recipient_id": "id-1", "share": "s", "schema": "d", "table": "t"}
    return {**fields, "day": date(2026, 11, day), "time": datetime(2026, 11, day, 9, tzinfo=UTC), "status": 200, **more}


ROWS = [
    row("request", "alice", files_signed=3, bytes_signed=900),
    row("request", "alice", status=404, table="none"),
    row("fetch", "alice", bytes_sent=500, explained_by=1),
    row("fetch", "alice", bytes_sent=400, explained_by=0, day=21),
    row("fetch", None, bytes_sent=7, explained_by=0, table=None, schema=None, share=None),
    row("fetch", HOSTILE, bytes_sent=70_000, explained_by=2),
    row("fetch", "alice", bytes_sent=1 << 40, explained_by=1, day=1),
]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("usage"), ROWS)


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    schema = pa.schema([pa.field(name, TYPES[kind]) for name, kind in COLUMNS.items() if kind in TYPES])
    deltalake.write_deltalake(str(folder), pa.Table.from_pylist(rows, schema), partition_by=["day"])
    return str(folder)


def test_the_report_sums_requests_and_downloads_of_the_last_days(location: str) -> None:
    report_ = report(location, 7, HERE, nothing, TODAY)
    rows_ = [(use.recipient, use.table, use.requests, use.refused, use.fetches, use.bytes_sent) for use in report_.uses]
    assert rows_ == [
        (HOSTILE, "s.d.t", 0, 0, 1, 70_000),
        ("alice", "s.d.t", 1, 0, 2, 900),
        ("id-1", "", 0, 0, 1, 7),
        ("alice", "(unknown)", 1, 1, 0, 0),
    ]
    assert [(use.files_signed, use.bytes_signed, use.unexplained) for use in report_.uses][:2] == [
        (0, 0, 0),
        (3, 900, 1),
    ]
    assert report_.bytes_by_day == {
        date(2026, 11, 21): {"alice": 400},
        TODAY: {"alice": 500, HOSTILE: 70_000, "id-1": 7},
    }


def test_requests_of_checks_are_reported_only_on_request(deltaic: Deltaic, tmp_path: Path) -> None:
    rows = [
        row("request", "alice", token_id="937d8a9fd33e"),
        row("request", "alice", token_id="check-0a1b2c3d4e5f", files_signed=1),
        row("request", "alice", token_id="check-0a1b2c3d4e5f", status=404),
        row("fetch", "alice", token_id="check-0a1b2c3d4e5f", bytes_sent=1, explained_by=1),
        # What several requests may have caused, or none that is known, counts as the recipient's.
        row("fetch", "alice", bytes_sent=20, explained_by=2),
    ]
    folder = written(tmp_path / "usage", rows)
    for options, expected in (("", (1, 0, 0, 1, 20)), ("--checks", (2, 1, 1, 1, 1))):
        result = json.loads(deltaic.done(f"usage report --from {folder} --days 3653 --json {options}"))
        assert {use["recipient"] for use in result["uses"]} == {"alice"}
        sums = [
            sum(use[n] for use in result["uses"])
            for n in ("requests", "refused", "filesSigned", "fetches", "bytesSent")
        ]
        assert tuple(sums) == expected
        assert result["days"] == {"2026-11-22": {"alice": expected[-1]}}


class Tags(HTMLParser):
    """Parser that collects the tags of a page, as a browser reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_escapes_names_and_loads_no_resources(location: str) -> None:
    text = page(report(location, 7, HERE, nothing, TODAY), TODAY)
    tags = Tags()
    tags.feed(text)
    assert HOSTILE in tags.texts
    assert not tags.tags & {"script", "img", "link", "iframe", "object", "a"}
    assert not [name for name in tags.attributes if name.startswith("on") or name in {"href", "src"}]
    assert "70.0 kB" in text


def test_on_a_small_screen_names_are_complete_and_tables_scroll(location: str) -> None:
    text = page(report(location, 7, HERE, nothing, TODAY), TODAY)
    narrow = text.partition("@media (max-width: 48rem) {")[2].partition("\n}\n")[0]
    assert '<meta name="viewport" content="width=device-width">' in text
    assert "td, th { white-space: nowrap }" in narrow
    assert narrow.count("overflow-x: auto") == 2
    assert text.count("<figure ") == text.count("<svg") > 0


def test_a_page_without_usage_is_valid(location: str) -> None:
    text = page(report(location, 7, HERE, nothing, date(2027, 6, 1)), date(2027, 6, 1))
    assert "No data was downloaded" in text


def test_a_missing_usage_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="deltaic usage collect"):
        report(str(tmp_path / "none"), 7, HERE, nothing, TODAY)


ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202e\n"


def test_refused_requests_show_only_names_that_exist_in_the_catalog(filled: Deltaic, tmp_path: Path) -> None:
    events = [
        (ESCAPES, "d", "t"),
        ("VACCINE_SHARE", "acme", ESCAPES),
        ("vaccine_share", "Acme", "Patients"),
        (None,) * 3,
    ]
    rows = [
        row("request", "alice", status=404, share=share, schema=schema, table=table) for share, schema, table in events
    ]
    folder = written(tmp_path / "usage", [*rows, row("fetch", ESCAPES, bytes_sent=7, explained_by=1, status=403)])
    output = filled.done(f"usage report --from {folder} --days 3653 --html {tmp_path}/usage.html")
    assert not {"\x1b", "\x07", "\u202e"} & set(output + (tmp_path / "usage.html").read_text())
    result = json.loads(filled.done(f"usage report --from {folder} --days 3653 --json"))
    assert sorted((use["recipient"], use["table"]) for use in result["uses"]) == [
        (ESCAPES, "s.d.t"),
        ("alice", ""),
        ("alice", "(unknown)"),
        ("alice", "vaccine_share.acme.(unknown)"),
        ("alice", "vaccine_share.acme.patients"),
    ]


def test_missing_logs_are_reported_with_a_remedy(deltaic: Deltaic) -> None:
    result = deltaic("usage collect")
    assert result.exit_code == 1
    assert "--requests, --fetches and --to" in result.stderr


def test_the_report_is_printed_as_text_json_and_html(deltaic: Deltaic, location: str, tmp_path: Path) -> None:
    result = json.loads(deltaic.done(f"usage report --from {location} --days 3653 --html {tmp_path}/usage.html --json"))
    assert result["uses"][0]["bytesSent"] == 900 + (1 << 40)
    assert "<svg" in (tmp_path / "usage.html").read_text()
    assert "1,099,511,628,676" in deltaic.done(f"usage report --from {location} --days 3653")
