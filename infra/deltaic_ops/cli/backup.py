"""The commands `deltaic backup` and `deltaic restore`."""

import os
from pathlib import Path
from typing import Annotated

import typer
from deltaic.errors import AlreadyExists, InvalidParameter, NotFound

from deltaic_ops.backup import Backup, Tables, from_text, to_text
from deltaic_ops.backup import backup as read
from deltaic_ops.backup import restore as write
from deltaic_ops.cli.operator import AsJson, Operator, operator

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup: lines of JSON.")]


def backup(ctx: typer.Context, file: File, as_json: AsJson = False) -> None:
    r"""Write shares, recipients, grants, storages and tokens (as hashes) into a file that only you can read.

    Access keys of storages stay in Secrets Manager, and what passes by itself (submitted queries) is left out.

    \b
    deltaic backup 2026-11-22.jsonl
    deltaic --stack deltaic-prod backup 2026-11-22.jsonl
    """
    out = operator(ctx, as_json)
    if file.exists():
        raise AlreadyExists(f"{file} is there already: name another file")
    made = read(_tables(out))
    partial = file.with_name(f".{file.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as sink:
        sink.writelines(to_text(made))
        sink.flush()
        os.fsync(sink.fileno())
    partial.rename(file)
    _tell(out, made, f"{file} holds {len(made.lines)} items")


def restore(ctx: typer.Context, file: File, as_json: AsJson = False) -> None:
    r"""Write a backup into an empty stack: every profile works there, at that stack's endpoint.

    Restored again, it goes on where it stopped. Two catalogs are never mixed.

    \b
    deltaic restore 2026-11-22.jsonl
    deltaic --stack deltaic-new restore 2026-11-22.jsonl
    """
    out = operator(ctx, as_json)
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except UnicodeDecodeError:
        raise InvalidParameter(f"{file} is no backup: it is not text") from None
    made = from_text(lines, str(file))
    new = write(_tables(out), made)
    _tell(out, made, f"{new} of {len(made.lines)} items are restored" + (", the others were there" * (new == 0)))
    for name in made.keyed_storages:
        out.note(f"give storage '{name}' its keys: deltaic storage update {name} --access-key-id ...")


def _tables(out: Operator) -> Tables:
    where = out.connection
    return Tables(where.client("dynamodb"), where.catalog_table, where.tokens_table)


def _tell(out: Operator, made: Backup, done: str) -> None:
    kinds = ("share", "table", "volume", "skill", "model", "recipient", "storage")
    counts = {f"{kind}s": made.count(f"{kind}/") for kind in kinds}
    counts["tokens"] = sum(item["pk"].startswith("token/") for _, item in made.lines)
    if out.as_json:
        out.json({"made": made.made, "items": len(made.lines), **counts, "storagesWithoutKeys": made.keyed_storages})
    else:
        out.note(f"{done}: {', '.join(f'{count} {name}' for name, count in counts.items())}")
