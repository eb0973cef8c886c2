"""Pages of operators' actions: the form, the plan with its command, and the command's output.

The console runs exactly the command that the plan shows, in a separate process with the console's environment.
"""

import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deltaic.errors import Conflict, DeltaicError, InvalidParameter, NotFound
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from deltaic_ops.console.console_context import ConsoleContext, Handler, finishes_soon, link
from deltaic_ops.console.operator_actions import ACTIONS
from deltaic_ops.console.plans import Action, ActionPlan
from deltaic_ops.console.provider import Provider, Rehearsal

_MAX_PLANS: Final = 200
_PROGRAM: Final = (sys.executable, "-c", "from deltaic_ops.cli import main; main()")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit code and output of a command; the output can contain secrets."""

    exit_code: int
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)


def action(context: ConsoleContext, request: Request) -> Response:
    """Show the form of an action, its plan if the form is filled in, or an error at its field."""
    form = request.query_params
    name, selected = _action(form)
    if selected.fields and "planned" not in form:
        return _form_page(context, request, None)

    def check(_: object) -> tuple[Rehearsal, ActionPlan]:
        return selected.rehearse(context.provider, form), selected.plan(context.provider, form)

    def show(checked: tuple[Rehearsal, ActionPlan]) -> Response:
        rehearsal, plan = checked
        return context.page(
            request,
            "plan.html",
            name=name,
            action=selected,
            rehearsal=rehearsal,
            plan=plan,
            fields=selected.values(form),
            back=selected.url(selected.back, form),
            command=command(context.provider, plan),
            number=_store_plan(context.plans, plan),
        )

    title = f"Checking: {selected.title.format_map(selected.values(form))}"
    try:
        return context.run_and_show(request, ("plan", str(form)), title, check, show)
    except DeltaicError as error:
        if not selected.fields:
            raise
        return _form_page(context, request, error)


def _form_page(context: ConsoleContext, request: Request, error: DeltaicError | None) -> Response:
    form = request.query_params
    name, selected = _action(form)
    values = selected.values(form)
    subject = {parameter: values.pop(parameter) for parameter in selected.parameters}
    shown = {each.name: form.get(each.name, each.value if error is None else "") for each in selected.fields}
    return context.page(
        request,
        "action.html",
        200 if error is None else error.status,
        name=name,
        title=selected.title.format_map({**subject, **values}),
        action=selected,
        subject=subject,
        values=shown,
        error="" if error is None else selected.message(error),
        at_fault="" if error is None else selected.field_at_fault(form, error),
        back=selected.url(selected.back, form),
    )


def act(context: ConsoleContext, request: Request) -> Response:
    """Run the command of a confirmed plan once; raise Conflict if the effects of the action have changed."""
    form = request.state.form
    name, selected = _action(form)
    plan = selected.plan(context.provider, form)
    number = form.get("plan", "")
    stored = context.plans.pop(number, None)
    if stored is None:
        raise Conflict("this plan was already carried out, or is from an earlier run of the console: create it again")
    if stored != plan:
        raise Conflict("the effects of this action have changed since the plan was shown: create the plan again")
    context.jobs.forget("names")
    back = link("/action", action=name, **selected.values(form))
    context.jobs.start(
        ("act", number), plan.title, lambda _: (selected, plan, back, run_command(context.provider, plan))
    )
    return RedirectResponse(link("/outcome", plan=number), 303)


def load_file(_: ConsoleContext, request: Request) -> Response:
    """Show the plan that loads the uploaded file into a table with a similar name."""
    form = request.state.form
    if not (file := form.get("file", "")):
        raise InvalidParameter("the file did not arrive completely: choose it again")
    subject = {name: form.get(name, "") for name in ("share", "schema")}
    name = re.sub(r"\W+", "_", Path(file).stem).strip("_").lower()
    return RedirectResponse(link("/action", action="load-table", planned="yes", **subject, file=file, name=name), 303)


def outcome(context: ConsoleContext, request: Request) -> Response:
    """Show the output of a plan's command, once."""
    number = request.query_params.get("plan", "")
    job = context.jobs.get(("act", number))
    if job is None:
        raise NotFound("this result was already shown, or is from an earlier run: check the page of the changed entry")
    if not finishes_soon(job):
        return context.waiting_page(request, job)
    context.jobs.forget(("act", number))
    selected, plan, back, result = job.future.result()
    line = command(context.provider, plan)
    return context.page(request, "outcome.html", action=selected, plan=plan, back=back, command=line, result=result)


def command(provider: Provider, plan: ActionPlan) -> str:
    """Return the plan's command as a shell command line."""
    return " ".join(map(_quote, ["deltaic", *provider.options, *plan.arguments]))


def _quote(word: str) -> str:
    """Quote a word for a shell, with double quotes if it contains single quotes."""
    has_plain_quotes = "'" in word and word.isprintable() and not set(word) & set('"$`\\!')
    return f'"{word}"' if has_plain_quotes else shlex.quote(word)


def run_command(provider: Provider, plan: ActionPlan) -> CommandResult:
    """Run the command of a plan in a new process, and wait for it."""
    process = subprocess.run(
        [*_PROGRAM, *provider.options, *plan.arguments],
        env={**provider.environment, "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return CommandResult(process.returncode, process.stdout, process.stderr)


def _store_plan(plans: dict[str, ActionPlan], plan: ActionPlan) -> str:
    """Store a plan until it is confirmed, and return its random id."""
    number = secrets.token_urlsafe(16)
    plans[number] = plan
    if len(plans) > _MAX_PLANS:
        plans.pop(next(iter(plans)), None)
    return number


def _action(parameters: Mapping[str, str]) -> tuple[str, Action]:
    name = parameters.get("action", "")
    if name not in ACTIONS:
        raise NotFound(f"action '{name}' does not exist: use the links of the console's pages")
    return name, ACTIONS[name]


ROUTES: Final[dict[str, Handler]] = {"/action": action, "/outcome": outcome}
FORMS: Final[dict[str, Handler]] = {"/action": act, "/load": load_file}
