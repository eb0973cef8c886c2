"""State that all console pages share, and helpers that render templates, lists and job results."""

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from deltaic.catalog.admin.records import Excerpt
from deltaic_terminal.printing import visible
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from deltaic_ops.console.background_jobs import (
    MAX_AGE_SECONDS,
    MAX_WAIT_SECONDS,
    BackgroundJob,
    BackgroundJobs,
    ReportProgress,
)
from deltaic_ops.console.plans import ActionPlan
from deltaic_ops.console.provider import Provider
from deltaic_ops.rights.recipient_view import access_text
from deltaic_ops.usage.usage_report import amount

PAGE_SIZE: Final = 50
_FOLDER: Final = Path(__file__).parent / "templates"
_Entry = TypeVar("_Entry")
Handler = Callable[["ConsoleContext", Request], Response]


@dataclass(frozen=True, slots=True)
class ListPage(Generic[_Entry]):
    """Page of a sorted list of catalog entries."""

    entries: list[_Entry]
    after: str
    """Last name of the previous page; empty on the first page."""
    next: str
    """Last name of this page, with which the next page starts; empty on the last page."""


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    """The provider, background jobs and unconfirmed plans that all pages share."""

    provider: Provider
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    plans: dict[str, ActionPlan] = field(default_factory=dict)
    """Plans that were shown and are not confirmed yet, by their random id in the form."""

    def page(
        self, request: Request, template: str, status: int = 200, *, refresh: str = "", **values: Any
    ) -> HTMLResponse:
        """Render an HTML template with `values`, which are escaped; `refresh` is the value of a Refresh header."""
        common = {"provider": self.provider, "signed_in": bool(request.state.session), "path": request.url.path}
        content = _environment().get_template(template).render(**common, **values)
        return HTMLResponse(content, status, {"refresh": refresh} if refresh else None)

    def run_and_show(
        self,
        request: Request,
        key: Hashable,
        title: str,
        function: Callable[[ReportProgress], Any],
        show: Callable[[Any], Response],
    ) -> Response:
        """Run a function in a background job; return the page that `show` makes of its result, or a progress page."""
        job = self.jobs.start(key, title, function, max_age=MAX_AGE_SECONDS)
        if not finishes_soon(job):
            return self.waiting_page(request, job)
        self.jobs.forget(key)
        return show(job.future.result())

    def show_result(self, request: Request, key: Hashable, template: str, **values: Any) -> Response:
        """Render a template with a background job's `result`, `error` and start time `at`, or its progress page."""
        job = self.jobs.get(key)
        if job is not None and not finishes_soon(job):
            return self.waiting_page(request, job)
        result, error = (None, "") if job is None else job.result()
        at = None if job is None else datetime.fromtimestamp(job.started_at, UTC)
        return self.page(request, template, result=result, error=error, at=at, **values)

    def take_result(self, job: BackgroundJob, key: Hashable) -> tuple[bool, Any, str]:
        """Return whether a job is done, its result, and its error message; remove the job if it is done."""
        if not finishes_soon(job):
            return False, None, ""
        self.jobs.forget(key)
        return True, *job.result()

    def waiting_page(self, request: Request, job: BackgroundJob) -> Response:
        """Return the progress page of a job, which reloads itself every second."""
        url = str(request.url.replace(scheme="", netloc=""))
        return self.page(request, "waiting.html", refresh="1", job=job, url=url)


def finishes_soon(job: BackgroundJob) -> bool:
    """Wait up to `MAX_WAIT_SECONDS` for a job, and return whether it is done."""
    return bool(wait([job.future], MAX_WAIT_SECONDS).done)


def list_page(
    request: Request,
    entries: Callable[[Excerpt], Iterable[_Entry]],
    name: Callable[[_Entry], str],
    size: int = PAGE_SIZE,
) -> ListPage[_Entry]:
    """Read the page of a list that starts after the name in the query parameter `after`."""
    after = request.query_params.get("after", "")
    items = list(entries(Excerpt(after or None, size + 1)))
    return ListPage(items[:size], after, name(items[size - 1]) if len(items) > size else "")


def link(path: str, **parameters: object) -> str:
    """Return a relative URL of this console, without empty parameters."""
    query = urlencode({name: value for name, value in parameters.items() if value not in ("", None)})
    return f"{path}?{query}" if query else path


def _minute(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


def _visible(value: Any) -> Any:
    """Make control characters visible, because some reverse the direction of the text that follows."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.globals["link"] = link
    environment.filters |= {"minute": _minute, "amount": amount, "access": access_text}
    environment.globals["parts"] = environment.get_template("parts.html").module
    return environment
