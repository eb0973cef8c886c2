"""The commands `deltaic plan` and `deltaic apply`: the catalog is made what files say."""

import getpass
import json
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.errors import InvalidParameter, NotFound
from deltaic_terminal.printing import one_line

from deltaic_ops.cli.declared.declared import catalog_of
from deltaic_ops.cli.jobs.refreshing import ask_for_rows, drop_schedule, keep_schedule, requests_of
from deltaic_ops.cli.listing import print_lines
from deltaic_ops.cli.operator import Operator, Yes

if TYPE_CHECKING:
    from deltaic_ops.declared.applying import Applying
    from deltaic_ops.declared.model import Declaration
    from deltaic_ops.declared.plan import Plan
    from deltaic_ops.declared.steps import Step

_MARKS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
_DONE = {"create": "made", "update": "changed", "delete": "deleted"}
_PLAN = ".json"


def plan(
    out: Operator,
    files: Annotated[list[Path], typer.Argument(metavar="FILES|FOLDER")],
    out_file: Annotated[Path | None, typer.Option("--out", metavar="FILE.json", help="Keep it for `apply`.")] = None,
) -> None:
    r"""Say what would make the catalog what files say, and what it means for recipients; nothing is changed.

    \b
    deltaic plan shares-as-code/
    deltaic plan shares-as-code/ --out plan.json
    """
    from deltaic_ops.declared import plan as plans
    from deltaic_ops.declared.files import read

    if out_file is not None and out_file.suffix != _PLAN:
        raise typer.BadParameter(f"a plan is kept in a file named *{_PLAN}, by which `apply` knows it")
    declared = read(files)
    made = plans.plan(declared, catalog_of(out, out.admin, declared))
    if out_file is not None:
        plans.write_plan(made, out_file)
    _show(out, made)


def apply(  # noqa: PLR0913, PLR0917 -- what may be done is said one by one
    out: Operator,
    files: Annotated[list[Path], typer.Argument(metavar="FILES|FOLDER|PLAN.json")],
    prune: Annotated[bool, typer.Option("--prune", help="Delete what the catalog has and the files have not.")] = False,
    allow_wider: Annotated[
        bool, typer.Option("--allow-wider", help="Let recipients see more than before, unasked.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Do not look at tables and folders that nothing narrows.")
    ] = False,
    yes: Yes = False,
) -> None:
    r"""Make the catalog what files say: all of it, or it is said what was done; run it again to go on.

    Rights are taken before any are given. At a terminal you are asked; elsewhere nobody comes to see more without
    --allow-wider. Whoever else applies files meanwhile is refused.

    \b
    deltaic apply shares-as-code/
    deltaic apply shares-as-code/ --prune --allow-wider
    deltaic apply plan.json
    """
    from deltaic_ops.declared import plan as plans
    from deltaic_ops.declared.files import read

    kept = plans.read_plan(files[0]) if len(files) == 1 and files[0].suffix == _PLAN else None
    declared = read(files) if kept is None else kept[0]
    planned = plans.plan(declared, catalog_of(out, out.admin, declared))
    if kept is not None:
        plans.refuse_moved(planned, kept[1])
    asked = not out.as_json and not yes and sys.stdin.isatty()
    if planned.steps and not out.as_json:
        _show(out, planned)
    _refuse(planned, prune=prune, wider=allow_wider or asked)
    if planned.steps and asked:
        typer.confirm("Apply this?", abort=True)
    shares = _with_views(planned)
    before = requests_of(out, _there(out.admin, shares))
    try:
        _locked(out, planned, unchecked=unchecked)
    finally:  # some of it may be made
        ask_for_rows(out, _there(out.admin, shares), before)


def _locked(out: Operator, planned: "Plan", *, unchecked: bool) -> None:
    """Make the steps of a plan with the lock held; raises Conflict where another has it, or anything moved."""
    from deltaic.catalog.catalog_lock import locked

    from deltaic_ops.declared import plan as plans
    from deltaic_ops.declared.applying import Applying

    where = out.connection
    holder = f"{getpass.getuser()}@{socket.gethostname()} ({uuid4().hex[:8]})"
    with locked(where.dynamo(), where.catalog_table, holder) as held:
        admin = where.admin(held)
        now = plans.plan(planned.files, catalog_of(out, admin, planned.files))
        plans.refuse_moved(now, planned.found)
        held.prolong()
        admin.finish_deletions()
        loopback = bool(where.environment.get("AWS_ENDPOINT_URL"))
        applying = Applying(admin, lambda: out.schemas, unchecked=unchecked, loopback=loopback)
        try:
            _carry_out(out, applying, now.steps, held.prolong)
        finally:
            _schedule(out, applying, planned.files)


def _carry_out(out: Operator, applying: "Applying", steps: "Iterable[Step]", prolong: Callable[[], None]) -> None:
    """Make the steps, and say of each that it is made; however that ends, what is left is told."""
    from deltaic_ops.declared.applying import Refused

    steps, done = list(steps), list["Step"]()
    try:
        prolong()
        for step in applying.carry_out(steps):
            done.append(step)
            if not out.as_json:
                one = step.difference
                typer.echo(one_line(f"{len(done)}/{len(steps)} {_DONE[step.action]} {one.title}"))
            prolong()
    except Refused as refused:
        one, why = refused.step.difference, refused.refusal
        raise type(why)(f"{one.title}: {why.message}. Correct that, then apply again to go on") from why
    finally:
        left = [step for step in steps if step not in done]
        if out.as_json:
            told = {"done": [_wire(one) for one in done], "left": [_wire(one) for one in left]}
            out.json({**told, "warnings": applying.warnings})
        else:
            for line in applying.warnings:
                out.note(f"warning: {line}")
            out.note("the catalog is what the files say" if not left else f"{len(done)} of {len(steps)} steps are made")


def _schedule(out: Operator, applying: "Applying", files: "Declaration") -> None:
    """Take the schedules of views away that are gone, and keep all others: also those that an earlier run left out."""
    for view in applying.gone:
        drop_schedule(out, view)
    changed = {view.table_id for view in applying.views}
    shares = [name for name, held in files.shares.items() if any(schema.views for schema in held.schemas.values())]
    for share in _there(applying.admin, shares):
        for view in applying.admin.views.list(share):
            if view.refresh or view.table_id in changed:
                told = keep_schedule(out, view)
                if told and view.table_id in changed:
                    out.note(told)


def _show(out: Operator, made: "Plan") -> None:
    if out.as_json:
        out.json({
            "steps": [_wire(step) for step in made.steps],
            "means": [{"recipients": list(one.recipients), "changes": list(one.changes)} for one in made.means],
            "remarks": list(made.remarks),
            "deleted": made.deleted,
        })  # fmt: skip
        return
    print_lines(_lines(made))
    print_lines((line, "bold") for line in (*map(str, made.means), *made.remarks))
    counts = {action: sum(step.action == action for step in made.steps) for action in _MARKS}
    parts = [f"{counts['create']} to make", f"{counts['update']} to change", f"{made.deleted} to delete (--prune)"]
    told = [part for part, count in zip(parts, (*list(counts.values())[:2], made.deleted), strict=True) if count]
    if made.widened:
        told.append("recipients come to see more (--allow-wider where nobody is asked)")
    out.note("; ".join(told) or "nothing to do: the catalog is what the files say")


def _lines(made: "Plan") -> "Iterator[tuple[str, str]]":
    from deltaic_ops.declared.model import PARTS

    for step in made.steps:
        one, (mark, colour) = step.difference, _MARKS[step.action]
        also = f", with {step.also} entries in it" if step.also else ""
        if step.is_pause and step.action == "delete":
            also = ", until what it shows is settled"
        yield f"{mark} {one.title}{also}", colour
        if step.action == "create":
            for field, value in (one.in_files or {}).items():
                if value != PARTS[one.kind].model_fields[field].default:
                    yield f"    {field}: {_told(value)}", colour
        elif step.action == "update":
            for field, value in (one.in_files or {}).items():
                yield f"    {field}: {_told((one.in_catalog or {})[field])} becomes {_told(value)}", colour


def _told(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wire(step: "Step") -> dict[str, object]:
    one = step.difference
    return {"action": step.action, "kind": one.kind, "name": one.name, "widens": step.widens,
            "before": one.in_catalog, "after": one.in_files}  # fmt: skip


def _refuse(planned: "Plan", *, prune: bool, wider: bool) -> None:
    """Raise InvalidParameter for what was not allowed; nothing is done then."""
    from deltaic_ops.declared.meaning import listed

    if planned.deleted and not prune:
        raise InvalidParameter(
            f"the catalog has what the files have not ({listed(planned.gone)}): say --prune to delete it, or write it "
            "into the files (deltaic export)"
        )
    if planned.widened and not wider:
        raise InvalidParameter(
            f"recipients come to see more by {listed(planned.widened)}: say --allow-wider to allow it"
        )


def _with_views(planned: "Plan") -> set[str]:
    shares = {one.path[-1 if one.kind == "grant" else 0] for one in planned.found if one.kind in {"grant", "view"}}
    people = {one.path[0].lower() for one in planned.found if one.kind == "recipient"}
    held = [person.grants for name, person in planned.files.recipients.items() if name.lower() in people]
    return shares.union(*held)


def _there(admin: CatalogAdmin, shares: Iterable[str]) -> Iterator[str]:
    for share in sorted(shares):
        try:
            yield admin.shares.get(share).name
        except NotFound:
            continue
