"""Writes what `sam deploy` deploys into a folder: template.yaml, the functions' sources, profiles dev and prod."""

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from deltaic_ops.cli.operator import operator

_PARTS = ("template.yaml", "functions", "samconfig.toml")
_ANSWERS = "samconfig.toml"
"""Where `sam deploy --guided` keeps the provider's answers: one that is there is not replaced."""


def template(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Made if it is not there; one of an earlier release is brought up.")],
) -> None:
    r"""Write template.yaml and the functions into a folder, from which SAM deploys them.

    \b
    deltaic template deltaic-stack
    cd deltaic-stack
    sam build && sam deploy --guided --config-env prod
    """
    from deltaic.errors import InvalidParameter

    from deltaic_ops.deploy.template import ROOT

    if folder.exists() and any(folder.iterdir()) and not (folder / "functions" / "layer" / "deltaic").is_dir():
        raise InvalidParameter(f"'{folder}' holds something else: name a folder of its own")
    folder.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif part != _ANSWERS or not target.exists():
            shutil.copyfile(source, target)
    place = shlex.quote(str(folder))
    operator(ctx, as_json=False).note(f"now: cd {place} && sam build && sam deploy --guided --config-env prod")
