"""The route table of the template: which route a request takes, on the path as it was sent."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltaic_ops.deploy.api import ANY, Route


@dataclass(frozen=True, slots=True)
class Match:
    """A route and the values of its parameters, still URI-encoded, as API Gateway hands them on."""

    route: Route
    parameters: Mapping[str, str]


class RouteTable:
    """The template's routes; a slash at the end does not count.

    A static segment goes before a parameter, and that before one that takes all that is left (`{proxy+}`); of one path
    a method of its own before ANY.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = [(route, _pattern(route.path)) for route in sorted(routes, key=_order)]

    def match(self, method: str, path: str) -> Match | None:
        """Return the route of a method and raw path below the stage, or None."""
        for route, pattern in self._routes:
            if route.method in {method, ANY} and (found := pattern.fullmatch(path)):
                return Match(route, found.groupdict())
        return None


def _order(route: Route) -> tuple[list[int], bool]:
    ranks = [part.startswith("{") + part.endswith("+}") for part in route.path.strip("/").split("/")]
    return ranks, route.method == ANY


def _pattern(path: str) -> re.Pattern[str]:
    """Return what a path matches: `{name}` takes a segment, `{name+}` all that is left."""
    escaped = re.escape(path)
    by_rest = re.sub(r"\\{(\w+)\\\+\\}", r"(?P<\1>.+?)", escaped)
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", by_rest) + "/?")
