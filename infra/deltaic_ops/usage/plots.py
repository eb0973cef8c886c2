"""Plots as SVG by hand, and the usage report as one HTML file: nothing is fetched, every name is escaped."""

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from deltaic_terminal.printing import one_line

from deltaic_ops.usage.usage_report import Report, Use, amount

COLOURS: Final = ("#1b7f79", "#d98c3f", "#4a6fa5", "#a5527d", "#7a8f3c", "#8c6bb1")
OTHERS: Final = "#b8b8b8"
TEXT, FAINT = "#222222", "#777777"
WIDTH, LEFT, TOP, HEIGHT = 860, 80, 44, 220
_ROW: Final = 26
_MOST_BARS: Final = 20


def bars(title: str, shown: Sequence[tuple[str, int]]) -> str:
    """Return a horizontal bar for each name, the largest first; nothing where there is none."""
    shown = [(name, size) for name, size in shown if size][:_MOST_BARS]
    if not shown:
        return ""
    left, longest = 260, max(size for _, size in shown)
    parts: list[str] = []
    for number, (name, size) in enumerate(shown):
        top, length = TOP + number * _ROW, max(size / longest * (WIDTH - left - 110), 1)
        parts += [
            text(left - 8, top + 14, short(name), "end", TEXT),
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="18" fill="{COLOURS[0]}"/>',
            text(left + length + 6, top + 14, amount(size), "start", FAINT),
        ]
    return svg(title, TOP + _ROW * len(shown) + 8, parts)


def largest(told: Mapping[date, Mapping[str, int]]) -> list[str]:
    """Return the names by what was told of them on all days, the largest first."""
    sums: Counter[str] = Counter()
    for each in told.values():
        sums.update(each)
    return [name for name, _ in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))]


def by_day(  # noqa: PLR0913 -- what is told, of when, and how
    title: str,
    told: Mapping[date, Mapping[str, int]],
    since: date,
    today: date,
    written: Callable[[float], str],
    *,
    order: Sequence[str] = (),
) -> str:
    """Return a bar for each day, in which what was told by name lies upon each other; `written` writes a value.

    The first names of `order` have colours of their own: plots of the same names have the same. Without it the largest.
    """
    days = [since + timedelta(days=number) for number in range((today - since).days + 1)]
    most = (order or largest(told))[: len(COLOURS)]
    highest = max((sum(told.get(day, {}).values()) for day in days), default=0) or 1
    step = (WIDTH - LEFT - 10) / len(days)
    bottom = TOP + HEIGHT
    parts = [axis(bottom, highest, written)]
    for number, day in enumerate(days):
        values = told.get(day, {})
        named = {name: values.get(name, 0) for name in most}
        others = sum(values.values()) - sum(named.values())
        left, height = LEFT + number * step, 0.0
        for colour, name, size in [
            *((COLOURS[place], name, named[name]) for place, name in enumerate(most)),
            (OTHERS, "others", others),
        ]:
            if size:
                tall = size / highest * HEIGHT
                height += tall
                said = escape(f"{day} {name}: {written(size)}")
                parts.append(
                    f'<rect x="{left + step * 0.1:.1f}" y="{bottom - height:.1f}" width="{step * 0.8:.1f}" '
                    f'height="{tall:.1f}" fill="{colour}"><title>{said}</title></rect>'
                )
        if number % max(1, -(-len(days) // 10)) == 0:
            parts.append(text(left + step / 2, bottom + 18, f"{day:%m-%d}", "middle", FAINT))
    more = any(values.keys() - {*most} for values in told.values())
    meant = [*zip(COLOURS, most, strict=False), *([(OTHERS, "others")] if more else [])]
    return svg(title, bottom + 40 + 20 * -(-len(meant) // 3), [*parts, *legend(meant, bottom + 44)])


def steps(title: str, points: Sequence[tuple[datetime, int, str]], told: Callable[[float], str]) -> str:
    """Return a line in steps, a point for each value at its time, ascending; `told` writes it. Nothing for none."""
    if not points:
        return ""
    highest = max(value for _, value, _ in points) or 1
    first, last = points[0][0], points[-1][0]
    span = (last - first).total_seconds()
    bottom, width = TOP + HEIGHT, WIDTH - LEFT - 20
    parts = [axis(bottom, highest, told)]
    path = ""
    for number, (at, value, name) in enumerate(points):
        along = (at - first).total_seconds() / span if span else number / max(len(points) - 1, 1)
        x, y = LEFT + along * width, bottom - value / highest * HEIGHT
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
        said = escape(f"{name}, {at:%Y-%m-%d %H:%M}: {told(value)}")
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[0]}"><title>{said}</title></circle>')
    parts.insert(1, f'<path d="{path}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>')
    for at, anchor in [(first, "start"), *([(last, "end")] if span else [])]:
        parts.append(
            text(LEFT if anchor == "start" else WIDTH - 20, bottom + 18, f"{at:%Y-%m-%d %H:%M}", anchor, FAINT)
        )
    return svg(title, bottom + 30, parts)


def escape(said: str) -> str:
    """Return text as HTML shows it, in which everything can be seen."""
    return html.escape(one_line(said))


def axis(bottom: int, highest: int, told: Callable[[float], str]) -> str:
    """Return lines at nothing, at half and at the highest value, which `told` writes."""
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * HEIGHT
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        lines.append(text(LEFT - 8, y + 4, told(highest * share), "end", FAINT))
    return "".join(lines)


def legend(named: Sequence[tuple[str, str]], top: int) -> list[str]:
    """Return what colours mean, three a line."""
    parts = []
    for place, (colour, name) in enumerate(named):
        x, y = LEFT + place % 3 * 250, top + place // 3 * 20
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(x + 18, y, short(name), "start", TEXT))
    return parts


def svg(title: str, height: float, parts: Sequence[str]) -> str:
    """Return a figure of its parts, under its title."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="13">'
    )
    return (
        '<figure tabindex="0">'
        + head
        + f'<text x="0" y="24" font-size="16" fill="{TEXT}">{escape(title)}</text>'
        + "".join(parts)
        + "</svg></figure>"
    )


def text(x: float, y: float, said: str, anchor: str, colour: str) -> str:
    """Return some text that begins, is centred or ends at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'


def short(name: str) -> str:
    """Return a name that is not too long for a plot."""
    longest = 34
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


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
