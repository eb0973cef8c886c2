"""The usage report as one HTML file: plots as SVG by hand, nothing fetched from anywhere, every name escaped."""

from collections.abc import Sequence
from datetime import date
from typing import Final

from deltaic_ops.usage.plots import bars, by_day, escape
from deltaic_ops.usage.usage_report import Report, Use, amount

_MOST_ROWS: Final = 1000

STYLE: Final = """
body { font: 15px/1.4 sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { padding: .3rem .6rem; text-align: left; overflow-wrap: anywhere }
th { border-bottom: 2px solid #222 } td { border-bottom: 1px solid #ddd } .n { text-align: right; white-space: nowrap }
figure { margin: 0 } svg { max-width: 100%; height: auto; margin: 1rem 0 } .faint { color: #777 }
@media (max-width: 48rem) {
  table { display: block; overflow-x: auto } td, th { white-space: nowrap }
  figure { overflow-x: auto } svg { max-width: none }
}
"""


def page(report: Report, today: date) -> str:
    """Return the whole file."""
    sent = sum(use.bytes_sent for use in report.uses)
    summary = f"{report.since} to {today}: {sum(use.requests for use in report.uses):,} requests, "
    sent_by_day = by_day("Bytes sent, by day", report.days, report.since, today, amount)
    summary += f"{sum(use.fetches for use in report.uses):,} fetches, {amount(sent)} sent"
    left = len(report.uses) - _MOST_ROWS
    return "".join((
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
        f"<title>Who read what</title><style>{STYLE}</style></head><body>",
        f"<h1>Who read what</h1><p>{escape(summary)}</p>",
        sent_by_day if sent else "<p>Nothing was fetched.</p>",
        bars("Bytes sent, by recipient", summed(report.uses, "recipient")),
        bars("Bytes sent, by table", summed(report.uses, "table")),
        _table(report.uses[:_MOST_ROWS]),
        f'<p class="faint">and {left:,} more</p>' if left > 0 else "",
        "</body></html>\n",
    ))  # fmt: skip


def summed(uses: Sequence[Use], name: str) -> list[tuple[str, int]]:
    """Return the bytes that were sent by recipient or by table, the most first."""
    sums: dict[str, int] = {}
    for use in uses:
        key = getattr(use, name) or "(no table)"
        sums[key] = sums.get(key, 0) + use.bytes_sent
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def _table(uses: Sequence[Use]) -> str:
    numbered = ("requests", "refused", "files signed", "fetches", "bytes sent", "unexplained", "last")
    rows = []
    for use in uses:
        numbers = (use.requests, use.refused, use.files_signed, use.fetches)
        cells = [f"<td>{escape(use.recipient)}</td><td>{escape(use.table)}</td>"]
        cells += [f'<td class="n">{number:,}</td>' for number in numbers]
        cells.append(f'<td class="n" title="{use.bytes_sent:,} bytes">{amount(use.bytes_sent)}</td>')
        cells.append(f'<td class="n">{use.unexplained:,}</td><td class="n">{use.last_at:%Y-%m-%d %H:%M}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    headed = "<th>recipient</th><th>table</th>" + "".join(f'<th class="n">{head}</th>' for head in numbered)
    return f"<table><thead><tr>{headed}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
