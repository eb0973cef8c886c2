"""The command `deltaic template`: write template.yaml, the functions and samconfig.toml for `sam deploy`."""

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from deltaic_ops.cli.operator import operator

_PARTS = ("template.yaml", "functions", "samconfig.toml")
_ANSWERS = "samconfig.toml"
"""File in which `sam deploy --guided` stores the entered settings: an existing file is not replaced."""


def template(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder, or an older one to update.")],
) -> None:
    r"""Write the template and the functions for `sam deploy`.

    \b
    deltaic template deltaic-stack
    cd deltaic-stack
    sam build && sam deploy --guided --config-env prod
    """
    from deltaic.errors import InvalidParameter

    from deltaic_ops.deploy.sam_template import ROOT

    if folder.exists() and any(folder.iterdir()) and not (folder / "functions" / "layer" / "deltaic").is_dir():
        raise InvalidParameter(f"folder '{folder}' contains other files: choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for part in _PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif part != _ANSWERS or not target.exists():
            shutil.copyfile(source, target)
    quoted = shlex.quote(str(folder))
    operator(ctx, as_json=False).note(f"next: cd {quoted} && sam build && sam deploy --guided --config-env prod")
