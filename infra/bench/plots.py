"""Decides how plots are drawn: bars beside a rival's, as SVG by hand, so that nothing need be installed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.figures import amount

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 720, 110, 150, 46, 44
_OURS, _THEIRS, _TEXT, _FAINT = "#1b7f79", "#b8b8b8", "#222222", "#777777"


@dataclass(frozen=True, slots=True)
class Bar:
    """Our value and the rival's."""

    label: str
    ours: float
    theirs: float | None
    rival: str
    unit: str


def bars(title: str, shown: Sequence[Bar]) -> str:
    """Return an SVG with a pair of horizontal bars for each entry, on a logarithmic scale from a common start."""
    values = [value for bar in shown for value in (bar.ours, bar.theirs) if value]
    low, high = math.floor(math.log10(min(values))), math.log10(max(values))
    low = low - 1 if math.log10(min(values)) - low < 0.15 else low  # noqa: PLR2004 -- no bar shall vanish

    def length(value: float) -> float:
        share = (math.log10(value) - low) / max(high - low, 0.1)
        return max(share, 0.01) * (_WIDTH - _LEFT - _RIGHT)

    height = _TOP + _ROW * len(shown) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">',
        '<g font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="24" font-size="15" fill="{_TEXT}">{escape(title)}</text>',
    ]
    for number, bar in enumerate(shown):
        top = _TOP + number * _ROW
        parts.append(
            f'<text x="{_LEFT - 10}" y="{top + 24}" text-anchor="end" fill="{_TEXT}">{escape(bar.label)}</text>'
        )
        for offset, value, colour, who in ((2, bar.ours, _OURS, "Deltaic"), (20, bar.theirs, _THEIRS, bar.rival)):
            if value:
                said = escape(f"{amount(value, bar.unit)}  {who}")
                end = _LEFT + length(value) + 6
                parts += [
                    f'<rect x="{_LEFT}" y="{top + offset}" width="{length(value):.1f}" height="16" fill="{colour}"/>',
                    f'<text x="{end:.1f}" y="{top + offset + 13}" fill="{_FAINT}">{said}</text>',
                ]
    return "\n".join([*parts, "</g></svg>"]) + "\n"
