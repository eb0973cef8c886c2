"""Measures the size of the layers: `uv run python -m bench.layers` writes `layers.json`, which the report takes up."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltaic_ops.supply.layers import Size, sizes, table

NAME = "layers.json"
HEADING = "## Layers"


def main(folder: Path = Path(__file__).parent) -> None:
    """Build both layers for both processors, and put their sizes into the report that is there."""
    found = [one.as_json() for one in sizes()]
    (folder / NAME).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    report = folder / "report.md"
    before = report.read_text(encoding="utf-8").partition(f"\n{HEADING}\n")[0]
    report.write_text("\n".join([before, *chapter(found)]) + "\n", encoding="utf-8")


def chapter(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return the report's last section, with its heading."""
    text = (
        "`uv run python -m bench.layers`: built for Python 3.13 as `sam build` does; a test refuses what does not fit."
    )
    return [HEADING, "", text, "", *table([Size(**one) for one in found])]


if __name__ == "__main__":
    main()
