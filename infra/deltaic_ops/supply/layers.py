"""How large the layers are, built as `sam build` builds them, against what Lambda takes.

uv run python -m deltaic_ops.supply.layers        # prints a table
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from deltaic_ops.deploy.sam import Architecture
from deltaic_ops.deploy.template import ROOT

LIMIT = 262_144_000
"""Bytes of a function and all its layers, unzipped (AWS, "Lambda quotas")."""

FOLDERS = {"DeltaicLayer": "layer", "DeltalakeLayer": "maintenance/layer"}
PYTHON = "3.13"
"""Of the managed runtime that template.yaml names."""

ARCHITECTURES: tuple[Architecture, ...] = ("arm64", "x86_64")
_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Size:
    """One layer for one processor: bytes unzipped in Lambda."""

    layer: str
    architecture: str
    bytes: int

    as_json = asdict


def build(target: Path, architecture: str, python: str = PYTHON, layer: str = "DeltaicLayer") -> Path:
    """Build one layer into a folder, as `sam build` does, and return where its packages are."""
    subprocess.run(
        ["make", "--silent", f"build-{layer}"],
        cwd=ROOT / "functions" / FOLDERS[layer],
        env={**os.environ, "ARTIFACTS_DIR": str(target), "LAYER_ARCHITECTURE": architecture, "LAYER_PYTHON": python},
        check=True,
        timeout=_TIMEOUT_SECONDS,
    )
    return target / "python"


def unzipped(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def sizes() -> Iterator[Size]:
    """Build both layers for both processors and yield how large each is."""
    for architecture in ARCHITECTURES:
        for layer in FOLDERS:
            with tempfile.TemporaryDirectory() as folder:
                yield Size(layer, architecture, unzipped(build(Path(folder), architecture, layer=layer)))


def table(found: list[Size]) -> list[str]:
    """Return the sizes as a table: each layer, and what the function that has both brings together."""
    rows = [(one.layer, one.architecture, one.bytes) for one in found]
    rows += [
        ("both", architecture, sum(one.bytes for one in found if one.architecture == architecture))
        for architecture in dict.fromkeys(one.architecture for one in found)
    ]
    lines = [f"| {layer} | {processor} | {count:,} | {count / LIMIT:.0%} |" for layer, processor, count in rows]
    return [
        f"| layer | processor | bytes, unzipped | of the {LIMIT:,} that Lambda takes |",
        "|---|---|---|---|",
        *lines,
    ]


if __name__ == "__main__":
    print("\n".join(table(list(sizes()))))
