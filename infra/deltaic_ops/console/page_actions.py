"""Pages of operators' actions: the form, the plan with its command, and the command's output.

The console runs exactly the command that the plan shows, in a separate process with the console's environment.
"""

import secrets
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deltaic.errors import Conflict, NotFound
from starlette.requests import Request
from starlette.responses import Response

from deltaic_ops.console.background_jobs import BackgroundJob
from deltaic_ops.console.console_context import ConsoleContext, Handler, finishes_soon
from deltaic_ops.console.plans import ACTIONS, Action, ActionPlan
from deltaic_ops.console.provider import Provider

_MAX_PLANS: Final = 200
_PROGRAM: Final = (sys.executable, "-c", "from deltaic_ops.cli import main; main()")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit code and output of a command; the output can contain secrets."""

    exit_code: int
    stdout: str = field(repr=False)
    stderr: str = field(repr=False)


def action(context: ConsoleContext, request: Request) -> Response:
    """Show the form of an action, or its plan if the form is already filled in."""
    parameters = request.query_params
    name, selected = _action(parameters)
    subject = {parameter: parameters.get(parameter, "") for parameter in selected.parameters}
    if selected.fields and "planned" not in parameters:
        values = {field.name: parameters.get(field.name, field.value) for field in selected.fields}
        return context.page(request, "action.html", name=name, action=selected, subject=subject, values=values)
    plan = selected.plan(context.provider, parameters)
    fields = subject | {field.name: parameters.get(field.name, "") for field in selected.fields}
    return context.page(
        request,
        "plan.html",
        name=name,
        plan=plan,
        fields=fields,
        command=command(context.provider, plan),
        number=_store_plan(context.plans, plan),
    )


def act(context: ConsoleContext, request: Request) -> Response:
    """Run the command of a confirmed plan once; raise Conflict if the effects of the action have changed."""
    form = request.state.form
    _, selected = _action(form)
    plan = selected.plan(context.provider, form)
    number = form.get("plan", "")
    stored = context.plans.pop(number, None)
    if stored is None:
        raise Conflict("this plan was already carried out, or is from an earlier run of the console: create it again")
    if stored != plan:
        raise Conflict("the effects of this action have changed since the plan was shown: create the plan again")
    job = context.jobs.start(("act", number), plan.title, lambda _: (plan, run_command(context.provider, plan)))
    if finishes_soon(job):
        return _result_page(context, request, number, job)
    url = f"/outcome?plan={number}"
    return context.page(request, "waiting.html", refresh=f"1; url={url}", job=job, url=url)


def outcome(context: ConsoleContext, request: Request) -> Response:
    """Show the output of a plan's command, once."""
    number = request.query_params.get("plan", "")
    job = context.jobs.get(("act", number))
    if job is None:
        raise NotFound("this result was already shown, or is from an earlier run: check the page of the changed entry")
    return _result_page(context, request, number, job) if finishes_soon(job) else context.waiting_page(request, job)


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


def _result_page(context: ConsoleContext, request: Request, number: str, job: BackgroundJob) -> Response:
    context.jobs.forget(("act", number))
    plan, result = job.future.result()
    return context.page(request, "outcome.html", plan=plan, command=command(context.provider, plan), result=result)


def _action(parameters: Mapping[str, str]) -> tuple[str, Action]:
    name = parameters.get("action", "")
    if name not in ACTIONS:
        raise NotFound(f"action '{name}' does not exist: use the links of the console's pages")
    return name, ACTIONS[name]


ROUTES: Final[dict[str, Handler]] = {"/action": action, "/outcome": outcome}
FORMS: Final[dict[str, Handler]] = {"/action": act}
