"""Writes the bill of materials of each product, CycloneDX with licences: what `uv export` knows of the lock, and those.

uv run python -m deltaic_ops.supply.sbom dist
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltaic_ops.supply.licences import ELSEWHERE, licence
from deltaic_ops.supply.products import PRODUCTS, bill

_OPERATORS = (" OR ", " AND ", " WITH ")


def licensed(made: dict[str, Any]) -> dict[str, Any]:
    """Return a bill whose components name their licences (CycloneDX 1.5, "component.licenses")."""
    return {**made, "components": [{**one, "licenses": _licences(one["name"])} for one in made["components"]]}


def _licences(package: str) -> list[dict[str, Any]]:
    said = licence(package)
    if said == ELSEWHERE:
        return []
    if any(operator in said for operator in _OPERATORS):
        return [{"expression": said}] if said.isascii() and "License" not in said else [{"license": {"name": said}}]
    return [{"license": {"name": said}}]


def main(arguments: Sequence[str]) -> None:
    """Write one file a product into the folder."""
    folder = Path(arguments[0] if arguments else "dist")
    folder.mkdir(parents=True, exist_ok=True)
    for product in PRODUCTS:
        path = folder / f"deltaic-{product}.cdx.json"
        path.write_text(json.dumps(licensed(bill(product)), indent=2) + "\n", encoding="utf-8")
        print(f"{path}: {len(licensed(bill(product))['components'])} components")


if __name__ == "__main__":
    main(sys.argv[1:])
