"""What every page has at hand: the provider, the works under way, the plans that are open, and the templates."""

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

from deltaic_ops.console.background_jobs import FRESH_SECONDS, PATIENCE_SECONDS, Say, Work, Works
from deltaic_ops.console.plans import Plan
from deltaic_ops.console.provider import Provider
from deltaic_ops.rights.recipient_view import told_access
from deltaic_ops.usage.usage_report import amount

SIZE: Final = 50
"""Entries of a page."""

_FOLDER: Final = Path(__file__).parent / "templates"
_Entry = TypeVar("_Entry")
Handler = Callable[["Desk", Request], Response]


@dataclass(frozen=True, slots=True)
class Listed(Generic[_Entry]):
    """A page of a listing."""

    entries: list[_Entry]
    begins: str
    """The letters that were asked for."""
    after: str
    """Behind which name it begins; empty for the first page."""
    next: str
    """The name behind which the next page begins; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What every page has at hand."""

    provider: Provider
    works: Works = field(default_factory=Works)
    plans: dict[str, Plan] = field(default_factory=dict)
    """Those that were shown and not carried out, by number."""

    def page(
        self, request: Request, template: str, status: int = 200, *, refresh: str = "", **shown: Any
    ) -> HTMLResponse:
        """Return a page, which asks again as `refresh` says; text of `shown` is text wherever it stands."""
        session = request.state.session
        always = {"provider": self.provider, "token": session.form_token if session else "", "path": request.url.path}
        content = _look().get_template(template).render(**always, **shown)
        return HTMLResponse(content, status, {"refresh": refresh} if refresh else None)

    def found_out(
        self,
        request: Request,
        key: Hashable,
        title: str,
        run: Callable[[Say], Any],
        show: Callable[[Any], Response],
    ) -> Response:
        """Return what `show` makes of what `run` returns, or raise what it raises, once: a reload finds out anew.

        Where it takes longer than a page may, a page that asks again by itself.
        """
        work = self.works.begun(key, title, run, older=FRESH_SECONDS)
        if not is_soon_done(work):
            return self.waiting(request, work)
        self.works.taken(key)
        return show(work.future.result())

    def asked_for(self, request: Request, key: Hashable, template: str, **shown: Any) -> Response:
        """Return a page with what a form had found out: `found` or its `trouble`, and when: `at`. Empty before that."""
        work = self.works.known(key)
        if work is not None and not is_soon_done(work):
            return self.waiting(request, work)
        found, trouble = (None, "") if work is None else work.outcome()
        at = None if work is None else datetime.fromtimestamp(work.began, UTC)
        return self.page(request, template, found=found, trouble=trouble, at=at, **shown)

    def beside(self, work: Work, key: Hashable) -> tuple[bool, Any, str]:
        """Return whether a work is done that a page shows beside other things, what it has found or its trouble, once.

        The page must then ask again by itself where it is not done.
        """
        if not is_soon_done(work):
            return False, None, ""
        self.works.taken(key)
        return True, *work.outcome()

    def waiting(self, request: Request, work: Work) -> Response:
        """Return the page of a work that is not done."""
        again = str(request.url.replace(scheme="", netloc=""))
        return self.page(request, "waiting.html", refresh="1", work=work, again=again)


def is_soon_done(work: Work) -> bool:
    """Tell whether a work is done, or is within a page's patience."""
    return bool(wait([work.future], PATIENCE_SECONDS).done)


def listed(
    request: Request,
    entries: Callable[[Excerpt], Iterable[_Entry]],
    name: Callable[[_Entry], str],
    size: int = SIZE,
) -> Listed[_Entry]:
    """Return the page of a listing that a request asks for by `after` and `begins`; not one entry more is read."""
    after, begins = request.query_params.get("after", ""), request.query_params.get("begins", "")
    found = list(entries(Excerpt(after or None, begins, size + 1)))
    following = name(found[size - 1]) if len(found) > size else ""
    return Listed(found[:size], begins, after, following)


def link(path: str, **parameters: object) -> str:
    """Return an address of this console; what is empty is left out."""
    told = urlencode({name: value for name, value in parameters.items() if value not in ("", None)})
    return f"{path}?{told}" if told else path


def _moment(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"


def _seen(value: Any) -> Any:
    """Return text in which everything can be seen: a name must not turn the line around."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _look() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    made.globals["link"] = link
    made.filters |= {"moment": _moment, "amount": amount, "access": told_access}
    return made
