"""Draw SVG plots, and render the usage report as one HTML file without external resources."""

import html
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from deltaic_terminal.printing import one_line

from deltaic_ops.usage.usage_report import Report, Use, amount

COLORS: Final = ("#1b7f79", "#d98c3f", "#4a6fa5", "#a5527d", "#7a8f3c", "#8c6bb1")
REST_COLOR: Final = "#b8b8b8"
TEXT, FAINT = "#222222", "#777777"
WIDTH, LEFT, TOP, HEIGHT = 860, 80, 44, 220
_ROW: Final = 26
_MAX_BARS: Final = 20


def bars(title: str, entries: Sequence[tuple[str, int]]) -> str:
    """Return an SVG plot with a horizontal bar for each name; an empty string if all sizes are 0."""
    entries = [(name, size) for name, size in entries if size][:_MAX_BARS]
    if not entries:
        return ""
    label_width, largest_size = 260, max(size for _, size in entries)
    parts: list[str] = []
    for number, (name, size) in enumerate(entries):
        top, length = TOP + number * _ROW, max(size / largest_size * (WIDTH - label_width - 110), 1)
        parts += [
            text(label_width - 8, top + 14, shorten(name), "end", TEXT),
            f'<rect x="{label_width}" y="{top}" width="{length:.1f}" height="18" fill="{COLORS[0]}"/>',
            text(label_width + length + 6, top + 14, amount(size), "start", FAINT),
        ]
    return svg(title, TOP + _ROW * len(entries) + 8, parts)


def largest(sums_by_day: Mapping[date, Mapping[str, int]]) -> list[str]:
    """Return the names in order of their sums over all days, the largest first."""
    sums: Counter[str] = Counter()
    for day_sums in sums_by_day.values():
        sums.update(day_sums)
    return [name for name, _ in sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))]


def by_day(  # noqa: PLR0913 -- data, dates and format of a plot
    title: str,
    sums_by_day: Mapping[date, Mapping[str, int]],
    since: date,
    today: date,
    format_value: Callable[[float], str],
    *,
    order: Sequence[str] = (),
) -> str:
    """Return an SVG plot with a stacked bar for each day, which has a segment for each name.

    The first names of `order` (default: those with the largest sums) get colors; all others share one segment.
    """
    days = [since + timedelta(days=number) for number in range((today - since).days + 1)]
    top_names = (order or largest(sums_by_day))[: len(COLORS)]
    highest_total = max((sum(sums_by_day.get(day, {}).values()) for day in days), default=0) or 1
    step = (WIDTH - LEFT - 10) / len(days)
    bottom = TOP + HEIGHT
    parts = [axis(bottom, highest_total, format_value)]
    for number, day in enumerate(days):
        values = sums_by_day.get(day, {})
        top_sums = {name: values.get(name, 0) for name in top_names}
        rest = sum(values.values()) - sum(top_sums.values())
        bar_x, height = LEFT + number * step, 0.0
        for color, name, value in [
            *((COLORS[index], name, top_sums[name]) for index, name in enumerate(top_names)),
            (REST_COLOR, "others", rest),
        ]:
            if value:
                bar_height = value / highest_total * HEIGHT
                height += bar_height
                tooltip = escape(f"{day} {name}: {format_value(value)}")
                parts.append(
                    f'<rect x="{bar_x + step * 0.1:.1f}" y="{bottom - height:.1f}" width="{step * 0.8:.1f}" '
                    f'height="{bar_height:.1f}" fill="{color}"><title>{tooltip}</title></rect>'
                )
        if number % max(1, -(-len(days) // 10)) == 0:
            parts.append(text(bar_x + step / 2, bottom + 18, f"{day:%m-%d}", "middle", FAINT))
    has_rest = any(values.keys() - {*top_names} for values in sums_by_day.values())
    legend_entries = [*zip(COLORS, top_names, strict=False), *([(REST_COLOR, "others")] if has_rest else [])]
    return svg(title, bottom + 40 + 20 * -(-len(legend_entries) // 3), [*parts, *legend(legend_entries, bottom + 44)])


def steps(title: str, points: Sequence[tuple[datetime, int, str]], format_value: Callable[[float], str]) -> str:
    """Return an SVG step plot of values in ascending order of time; an empty string without points."""
    if not points:
        return ""
    highest = max(value for _, value, _ in points) or 1
    first, last = points[0][0], points[-1][0]
    span = (last - first).total_seconds()
    bottom, width = TOP + HEIGHT, WIDTH - LEFT - 20
    parts = [axis(bottom, highest, format_value)]
    path = ""
    for number, (time, value, name) in enumerate(points):
        position = (time - first).total_seconds() / span if span else number / max(len(points) - 1, 1)
        x, y = LEFT + position * width, bottom - value / highest * HEIGHT
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
        tooltip = escape(f"{name}, {time:%Y-%m-%d %H:%M} UTC: {format_value(value)}")
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLORS[0]}"><title>{tooltip}</title></circle>')
    parts.insert(1, f'<path d="{path}" fill="none" stroke="{COLORS[0]}" stroke-width="2"/>')
    for time, anchor in [(first, "start"), *([(last, "end")] if span else [])]:
        parts.append(
            text(LEFT if anchor == "start" else WIDTH - 20, bottom + 18, f"{time:%Y-%m-%d %H:%M} UTC", anchor, FAINT)
        )
    return svg(title, bottom + 30, parts)


def escape(content: str) -> str:
    """Escape a string for HTML, and make its control characters visible."""
    return html.escape(one_line(content))


def axis(bottom: int, highest: int, format_value: Callable[[float], str]) -> str:
    """Return SVG grid lines with labels at 0, half of the highest value, and the highest value."""
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * HEIGHT
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        lines.append(text(LEFT - 8, y + 4, format_value(highest * share), "end", FAINT))
    return "".join(lines)


def legend(entries: Sequence[tuple[str, str]], top: int) -> list[str]:
    """Return SVG parts of a legend with colors and names, three in a line."""
    parts = []
    for index, (color, name) in enumerate(entries):
        x, y = LEFT + index % 3 * 250, top + index // 3 * 20
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        parts.append(text(x + 18, y, shorten(name), "start", TEXT))
    return parts


def svg(title: str, height: float, parts: Sequence[str]) -> str:
    """Return an HTML figure: an SVG image with a title and these parts."""
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


def text(x: float, y: float, content: str, anchor: str, color: str) -> str:
    """Return an SVG text element at a position; `anchor` is start, middle or end."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(content)}</text>'


def shorten(name: str) -> str:
    """Truncate a name to 34 characters, so that it fits into a plot."""
    longest = 34
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


_MAX_ROWS: Final = 1000

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
    """Return the usage report as an HTML page."""
    sent = sum(use.bytes_sent for use in report.uses)
    summary = f"{report.since} to {today}: {sum(use.requests for use in report.uses):,} requests, "
    sent_by_day = by_day("Bytes sent, by day", report.bytes_by_day, report.since, today, amount)
    summary += f"{sum(use.fetches for use in report.uses):,} fetches, {amount(sent)} sent"
    remaining = len(report.uses) - _MAX_ROWS
    return "".join((
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
        f"<title>Usage</title><style>{STYLE}</style></head><body>",
        f"<h1>Usage by recipient and table</h1><p>{escape(summary)}</p>",
        sent_by_day if sent else "<p>No data was downloaded.</p>",
        bars("Bytes sent, by recipient", summed(report.uses, "recipient")),
        bars("Bytes sent, by table", summed(report.uses, "table")),
        _table(report.uses[:_MAX_ROWS]),
        f'<p class="faint">and {remaining:,} more</p>' if remaining > 0 else "",
        "</body></html>\n",
    ))  # fmt: skip


def summed(uses: Sequence[Use], name: str) -> list[tuple[str, int]]:
    """Return the sum of sent bytes for each recipient or table (the attribute `name`), the largest first."""
    sums: dict[str, int] = {}
    for use in uses:
        key = getattr(use, name) or "(no table)"
        sums[key] = sums.get(key, 0) + use.bytes_sent
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def _table(uses: Sequence[Use]) -> str:
    number_columns = ("requests", "refused", "files signed", "fetches", "bytes sent", "unexplained", "last")
    rows = []
    for use in uses:
        numbers = (use.requests, use.refused, use.files_signed, use.fetches)
        cells = [f"<td>{escape(use.recipient)}</td><td>{escape(use.table)}</td>"]
        cells += [f'<td class="n">{number:,}</td>' for number in numbers]
        cells.append(f'<td class="n" title="{use.bytes_sent:,} bytes">{amount(use.bytes_sent)}</td>')
        cells.append(f'<td class="n">{use.unexplained:,}</td><td class="n">{use.last_at:%Y-%m-%d %H:%M}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    header = "<th>recipient</th><th>table</th>" + "".join(f'<th class="n">{head}</th>' for head in number_columns)
    return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
