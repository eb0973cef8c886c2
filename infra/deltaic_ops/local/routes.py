"""Match percent-encoded request paths with the routes of the template."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltaic_ops.deploy.api import ANY, Route


@dataclass(frozen=True, slots=True)
class Match:
    """A route and its path parameters, which are still percent-encoded, as in API Gateway."""

    route: Route
    parameters: Mapping[str, str]


class RouteTable:
    """The template's routes; a slash at the end of a path is ignored.

    A static segment has precedence over a parameter, and a parameter over one for all remaining segments (`{proxy+}`).
    A method has precedence over ANY.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = [(route, _pattern(route.path)) for route in sorted(routes, key=_order)]

    def match(self, method: str, path: str) -> Match | None:
        """Return the route for a method and a percent-encoded path after the stage, or None."""
        for route, pattern in self._routes:
            if route.method in {method, ANY} and (match := pattern.fullmatch(path)):
                return Match(route, match.groupdict())
        return None


def _order(route: Route) -> tuple[list[int], bool]:
    ranks = [part.startswith("{") + part.endswith("+}") for part in route.path.strip("/").split("/")]
    return ranks, route.method == ANY


def _pattern(path: str) -> re.Pattern[str]:
    """Compile a route's path: `{name}` matches one segment, `{name+}` all remaining segments."""
    escaped = re.escape(path)
    by_rest = re.sub(r"\\{(\w+)\\\+\\}", r"(?P<\1>.+?)", escaped)
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", by_rest) + "/?")
