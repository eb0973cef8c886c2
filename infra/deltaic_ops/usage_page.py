"""The usage report as one HTML file: plots as SVG by hand, nothing fetched from anywhere, every name escaped."""

import html
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from deltaic_pipeline.spark.printing import one_line

from deltaic_ops.usage_report import Report, Use, amount

COLOURS: Final = ("#1b7f79", "#d98c3f", "#4a6fa5", "#a5527d", "#7a8f3c", "#8c6bb1")
OTHERS: Final = "#b8b8b8"
_TEXT, _FAINT = "#222222", "#777777"
_WIDTH, _LEFT, _TOP, _HEIGHT = 860, 80, 44, 220
_ROW: Final = 26
_MOST_BARS: Final = 20
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
    summary += f"{sum(use.fetches for use in report.uses):,} fetches, {amount(sent)} sent"
    left = len(report.uses) - _MOST_ROWS
    return "".join((
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
        f"<title>Who read what</title><style>{STYLE}</style></head><body>",
        f"<h1>Who read what</h1><p>{escape(summary)}</p>",
        by_day(report, today) if sent else "<p>Nothing was fetched.</p>",
        bars("Bytes sent, by recipient", _summed(report.uses, "recipient")),
        bars("Bytes sent, by table", _summed(report.uses, "table")),
        _table(report.uses[:_MOST_ROWS]),
        f'<p class="faint">and {left:,} more</p>' if left > 0 else "",
        "</body></html>\n",
    ))  # fmt: skip


def by_day(report: Report, today: date) -> str:
    """Return a bar for each day, in which recipients lie upon each other."""
    days = [report.since + timedelta(days=number) for number in range((today - report.since).days + 1)]
    most = [name for name, _ in _summed(report.uses, "recipient")[: len(COLOURS)]]
    highest = max((sum(report.days.get(day, {}).values()) for day in days), default=0) or 1
    step = (_WIDTH - _LEFT - 10) / len(days)
    bottom = _TOP + _HEIGHT
    parts = [_axis(bottom, highest)]
    for number, day in enumerate(days):
        sent = report.days.get(day, {})
        told = {name: sent.get(name, 0) for name in most}
        others = sum(sent.values()) - sum(told.values())
        left, height = _LEFT + number * step, 0.0
        for colour, name, size in [
            *((COLOURS[place], name, told[name]) for place, name in enumerate(most)),
            (OTHERS, "others", others),
        ]:
            if size:
                tall = size / highest * _HEIGHT
                height += tall
                said = escape(f"{day} {name}: {amount(size)}")
                parts.append(
                    f'<rect x="{left + step * 0.1:.1f}" y="{bottom - height:.1f}" width="{step * 0.8:.1f}" '
                    f'height="{tall:.1f}" fill="{colour}"><title>{said}</title></rect>'
                )
        if number % max(1, -(-len(days) // 10)) == 0:
            parts.append(_text(left + step / 2, bottom + 18, f"{day:%m-%d}", "middle", _FAINT))
    named = [*zip(COLOURS, most, strict=False), (OTHERS, "others")]
    return _svg("Bytes sent, by day", bottom + 40 + 20 * -(-len(named) // 3), [*parts, *_legend(named, bottom + 44)])


def bars(title: str, shown: Sequence[tuple[str, int]]) -> str:
    """Return a horizontal bar for each name, the largest first; nothing where there is none."""
    shown = [(name, size) for name, size in shown if size][:_MOST_BARS]
    if not shown:
        return ""
    left, longest = 260, max(size for _, size in shown)
    parts: list[str] = []
    for number, (name, size) in enumerate(shown):
        top, length = _TOP + number * _ROW, max(size / longest * (_WIDTH - left - 110), 1)
        parts += [
            _text(left - 8, top + 14, _short(name), "end", _TEXT),
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="18" fill="{COLOURS[0]}"/>',
            _text(left + length + 6, top + 14, amount(size), "start", _FAINT),
        ]
    return _svg(title, _TOP + _ROW * len(shown) + 8, parts)


def escape(text: str) -> str:
    """Return text as HTML shows it, in which everything can be seen."""
    return html.escape(one_line(text))


def _summed(uses: Sequence[Use], name: str) -> list[tuple[str, int]]:
    sums: dict[str, int] = {}
    for use in uses:
        key = getattr(use, name) or "(no table)"
        sums[key] = sums.get(key, 0) + use.bytes_sent
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def _axis(bottom: int, highest: int) -> str:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * _HEIGHT
        lines.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        lines.append(_text(_LEFT - 8, y + 4, amount(highest * share), "end", _FAINT))
    return "".join(lines)


def _legend(named: Sequence[tuple[str, str]], top: int) -> list[str]:
    parts = []
    for place, (colour, name) in enumerate(named):
        x, y = _LEFT + place % 3 * 250, top + place // 3 * 20
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(x + 18, y, _short(name), "start", _TEXT))
    return parts


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="13">'
    )
    return (
        "<figure>"
        + head
        + f'<text x="0" y="24" font-size="16" fill="{_TEXT}">{escape(title)}</text>'
        + "".join(parts)
        + "</svg></figure>"
    )


def _text(x: float, y: float, said: str, anchor: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'


def _short(name: str) -> str:
    longest = 34
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


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
