"""The pages of what can be done: a form, the plan with its command, and what came of it.

What is carried out is the very command that the plan shows, in a process of its own with the console's rights.
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

from deltaic_ops.console.background_jobs import Work
from deltaic_ops.console.console_context import Desk, Handler, is_soon_done
from deltaic_ops.console.plans import ACTIONS, Action, Plan
from deltaic_ops.console.provider import Provider

_MOST_PLANS: Final = 200
_PROGRAM: Final = (sys.executable, "-c", "from deltaic_ops.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a command; it may hold a secret that is shown this once."""

    code: int
    answer: str = field(repr=False)
    remarks: str = field(repr=False)


def action(desk: Desk, request: Request) -> Response:
    """Ask for what an action needs; where it needs nothing, show its plan."""
    asked = request.query_params
    name, wanted = _action(asked)
    if wanted.fields and "planned" not in asked:
        about = {each: asked.get(each, "") for each in wanted.about}
        values = {each.name: asked.get(each.name, each.value) for each in wanted.fields}
        return desk.page(request, "action.html", name=name, action=wanted, about=about, values=values)
    plan = wanted.plan(desk.provider, asked)
    fields = {each: asked.get(each, "") for each in (*wanted.about, *(one.name for one in wanted.fields))}
    return desk.page(
        request,
        "plan.html",
        name=name,
        plan=plan,
        fields=fields,
        command=command(desk.provider, plan),
        number=_opened(desk.plans, plan),
    )


def act(desk: Desk, request: Request) -> Response:
    """Carry a plan out, once."""
    form = request.state.form
    _, wanted = _action(form)
    plan = wanted.plan(desk.provider, form)
    number = form.get("plan", "")
    shown = desk.plans.pop(number, None)
    if shown is None:
        raise Conflict("this was done already, or planned in an earlier run: plan it again")
    if shown != plan:
        raise Conflict("what it would do has changed since it was planned: plan it again")
    work = desk.works.begun(("act", number), plan.title, lambda _: (plan, carried_out(desk.provider, plan)))
    if is_soon_done(work):
        return _outcome(desk, request, number, work)
    again = f"/outcome?plan={number}"
    return desk.page(request, "waiting.html", refresh=f"1; url={again}", work=work, again=again)


def outcome(desk: Desk, request: Request) -> Response:
    """Show what came of a plan, once."""
    number = request.query_params.get("plan", "")
    work = desk.works.known(("act", number))
    if work is None:
        raise NotFound("what came of this was shown already, or is of an earlier run")
    return _outcome(desk, request, number, work) if is_soon_done(work) else desk.waiting(request, work)


def command(provider: Provider, plan: Plan) -> str:
    """Return the line that one types to do the same."""
    return " ".join(map(_quoted, ["deltaic", *provider.options, *plan.line]))


def _quoted(word: str) -> str:
    """Return a word as a shell takes it: a filter's own quotes stay as they are wherever they can."""
    plain = "'" in word and word.isprintable() and not set(word) & set('"$`\\!')
    return f'"{word}"' if plain else shlex.quote(word)


def carried_out(provider: Provider, plan: Plan) -> Outcome:
    """Run a plan's command."""
    done = subprocess.run(
        [*_PROGRAM, *provider.options, *plan.line],
        env={**provider.environment, "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def _opened(plans: dict[str, Plan], plan: Plan) -> str:
    """Return the number of a plan that is shown: it can be carried out once, as it was shown."""
    number = secrets.token_urlsafe(16)
    plans[number] = plan
    if len(plans) > _MOST_PLANS:
        plans.pop(next(iter(plans)), None)
    return number


def _outcome(desk: Desk, request: Request, number: str, work: Work) -> Response:
    desk.works.taken(("act", number))
    plan, found = work.future.result()
    return desk.page(request, "outcome.html", plan=plan, command=command(desk.provider, plan), outcome=found)


def _action(told: Mapping[str, str]) -> tuple[str, Action]:
    name = told.get("action", "")
    if name not in ACTIONS:
        raise NotFound("there is no such action")
    return name, ACTIONS[name]


ROUTES: Final[dict[str, Handler]] = {"/action": action, "/outcome": outcome}
FORMS: Final[dict[str, Handler]] = {"/action": act}
