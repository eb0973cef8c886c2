"""The commands `deltaic plan` and `deltaic apply`: change the catalog to match files."""

import getpass
import json
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.errors import InvalidParameter, NotFound
from deltaic_terminal.printing import one_line

from deltaic_ops.cli.declared.declared import FilesOrFolder, catalog_of
from deltaic_ops.cli.jobs.view_updates import ask_for_rows, drop_schedule, keep_schedule, requests_of
from deltaic_ops.cli.list_output import print_lines
from deltaic_ops.cli.operator import Operator, Yes

if TYPE_CHECKING:
    from deltaic_ops.declared.declaration import Declaration
    from deltaic_ops.declared.plan import CatalogPlan
    from deltaic_ops.declared.plan_execution import PlanExecution
    from deltaic_ops.declared.steps import PlanStep

_MARKS = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
_DONE = {"create": "created", "update": "updated", "delete": "deleted"}


def plan(cli: Operator, files: FilesOrFolder) -> None:
    r"""Show how apply would change the catalog, and what recipients would see.

    \b
    deltaic plan shares-as-code/
    """
    from deltaic_ops.declared import plan as plans
    from deltaic_ops.declared.declaration_files import read

    declared = read(files)
    _show(cli, plans.plan(declared, catalog_of(cli, cli.admin, declared)))


def apply(  # noqa: PLR0913, PLR0917 -- one option for each permission
    cli: Operator,
    files: FilesOrFolder,
    prune: Annotated[bool, typer.Option("--prune", help="Delete entries that are not in the files.")] = False,
    allow_wider: Annotated[bool, typer.Option("--allow-wider", help="Let recipients see more than before.")] = False,
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Do not check that tables can be read.")] = False,
    yes: Yes = False,
) -> None:
    r"""Change the catalog to match YAML files.

    The command shows the changes and asks before it makes them. Without a terminal, it does not ask, and rejects
    changes that let recipients see more unless --allow-wider is set. It removes rights before it adds any. If it
    fails, it lists the finished steps; run it again to continue. Only one `apply` can run at a time.

    \b
    deltaic apply shares-as-code/
    deltaic apply shares-as-code/ --prune --allow-wider
    """
    from deltaic_ops.declared import plan as plans
    from deltaic_ops.declared.declaration_files import read

    declared = read(files)
    planned = plans.plan(declared, catalog_of(cli, cli.admin, declared))
    confirms = not cli.as_json and not yes and sys.stdin.isatty()
    if planned.steps and not cli.as_json:
        _show(cli, planned)
    _refuse(planned, prune=prune, wider=allow_wider or confirms)
    if planned.steps and confirms:
        typer.confirm("Apply these changes?", abort=True)
    shares = _with_views(planned)
    before = requests_of(cli, _existing(cli.admin, shares))
    try:
        _locked(cli, planned, unchecked=unchecked)
    finally:  # some changes may be made
        ask_for_rows(cli, _existing(cli.admin, shares), before)


def _locked(cli: Operator, planned: "CatalogPlan", *, unchecked: bool) -> None:
    """Apply a plan under the catalog lock; raises Conflict if another `apply` runs or the catalog has changed."""
    from deltaic.catalog.catalog_lock import locked

    from deltaic_ops.declared import plan as plans
    from deltaic_ops.declared.plan_execution import PlanExecution

    connection = cli.connection
    holder = f"{getpass.getuser()}@{socket.gethostname()} ({uuid4().hex[:8]})"
    with locked(connection.dynamo(), connection.catalog_table, holder) as lock:
        admin = connection.admin(lock)
        now = plans.plan(planned.files, catalog_of(cli, admin, planned.files))
        plans.check_unchanged(now, planned)
        lock.prolong()
        admin.finish_deletions()
        loopback = bool(connection.environment.get("AWS_ENDPOINT_URL"))
        run = PlanExecution(admin, lambda: cli.schemas, unchecked=unchecked, loopback=loopback)
        try:
            _carry_out(cli, run, now.steps, lock.prolong)
        finally:
            _schedule(cli, run, planned.files)


def _carry_out(cli: Operator, run: "PlanExecution", steps: "Iterable[PlanStep]", prolong: Callable[[], None]) -> None:
    """Apply the steps of the plan and print each; at the end, also after an error, print what remains."""
    from deltaic_ops.declared.plan_execution import StepFailed

    steps, done = list(steps), list["PlanStep"]()
    try:
        prolong()
        for step in run.carry_out(steps):
            done.append(step)
            if not cli.as_json:
                typer.echo(one_line(f"{len(done)}/{len(steps)} {_DONE[step.action]} {step.difference.title}"))
            prolong()
    except StepFailed as failure:
        title, error = failure.step.difference.title, failure.error
        raise type(error)(f"{title}: {error.message}. Fix this, then run apply again to continue") from error
    finally:
        remaining = [step for step in steps if step not in done]
        if cli.as_json:
            steps_as_json = {"done": list(map(_wire, done)), "left": list(map(_wire, remaining))}
            cli.json({**steps_as_json, "warnings": run.warnings})
        else:
            for line in run.warnings:
                cli.note(f"warning: {line}")
            cli.note(
                "the catalog matches the files" if not remaining else f"{len(done)} of {len(steps)} steps are done"
            )


def _schedule(cli: Operator, run: "PlanExecution", files: "Declaration") -> None:
    """Delete schedules of deleted views; update those of all others, which an interrupted `apply` may have missed."""
    for view in run.deleted_views:
        drop_schedule(cli, view)
    changed = {view.table_id for view in run.changed_views}
    shares = [name for name, share in files.shares.items() if any(schema.views for schema in share.schemas.values())]
    for share in _existing(run.admin, shares):
        for view in run.admin.views.list(share):
            if view.refresh or view.table_id in changed:
                message = keep_schedule(cli, view)
                if message and view.table_id in changed:
                    cli.note(message)


def _show(cli: Operator, changes: "CatalogPlan") -> None:
    if cli.as_json:
        cli.json({
            "steps": [_wire(step) for step in changes.steps],
            "means": [{"recipients": list(each.recipients), "changes": list(each.changes)} for each in changes.effects],
            "remarks": list(changes.remarks),
            "deleted": len(changes.deleted_titles),
        })  # fmt: skip
        return
    print_lines(_lines(changes))
    print_lines((line, "bold") for line in (*map(str, changes.effects), *changes.remarks))
    counts = [sum(step.action == action for step in changes.steps) for action in ("create", "update")]
    counts.append(len(changes.deleted_titles))
    parts = zip(("create", "update", "delete (--prune)"), counts, strict=True)
    summary = [f"{count} to {action}" for action, count in parts if count]
    if changes.widening_titles:
        summary.append("recipients will see more (requires confirmation or --allow-wider)")
    cli.note("; ".join(summary) or "nothing to do: the catalog matches the files")


def _lines(changes: "CatalogPlan") -> "Iterator[tuple[str, str]]":
    from deltaic_ops.declared.declaration import PARTS

    for step in changes.steps:
        entry, (mark, colour) = step.difference, _MARKS[step.action]
        also = f", with {step.nested_deletions} entries in it" if step.nested_deletions else ""
        if step.is_pause and step.action == "delete":
            also = ", until the change is complete"
        yield f"{mark} {entry.title}{also}", colour
        if step.action == "create":
            for field, value in (entry.in_files or {}).items():
                if value != PARTS[entry.kind].model_fields[field].default:
                    yield f"    {field}: {_json(value)}", colour
        elif step.action == "update":
            for field, value in (entry.in_files or {}).items():
                yield f"    {field}: {_json((entry.in_catalog or {})[field])} becomes {_json(value)}", colour


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wire(step: "PlanStep") -> dict[str, object]:
    entry = step.difference
    return {"action": step.action, "kind": entry.kind, "name": entry.name, "widens": step.widens,
            "before": entry.in_catalog, "after": entry.in_files}  # fmt: skip


def _refuse(planned: "CatalogPlan", *, prune: bool, wider: bool) -> None:
    """Raise InvalidParameter for changes that require --prune or --allow-wider, before any change is made."""
    from deltaic_ops.declared.effects import join_names

    if planned.deleted_titles and not prune:
        raise InvalidParameter(
            f"these entries of the catalog are not in the files: {join_names(planned.deleted_titles)}. Use --prune to "
            "delete them, or add them to the files (deltaic export)"
        )
    if planned.widening_titles and not wider:
        raise InvalidParameter(
            f"these changes let recipients see more: {join_names(planned.widening_titles)}. Use --allow-wider to allow "
            "them"
        )


def _with_views(planned: "CatalogPlan") -> set[str]:
    shares = {
        each.path[-1 if each.kind == "grant" else 0] for each in planned.differences if each.kind in {"grant", "view"}
    }
    recipients = {entry.path[0].lower() for entry in planned.differences if entry.kind == "recipient"}
    grants = [recipient.grants for name, recipient in planned.files.recipients.items() if name.lower() in recipients]
    return shares.union(*grants)


def _existing(admin: CatalogAdmin, shares: Iterable[str]) -> Iterator[str]:
    for share in sorted(shares):
        try:
            yield admin.shares.get(share).name
        except NotFound:
            continue
