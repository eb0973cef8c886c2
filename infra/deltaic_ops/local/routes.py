"""The route table of the template: which route a request takes, on the path as it was sent."""

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
        self._routes = [(route, _segments(route.path)) for route in routes]
        self._routes.sort(key=lambda known: ([_rank(segment) for segment in known[1]], known[0].method == ANY))

    def match(self, method: str, path: str) -> Match | None:
        """Return the route of a method and raw path below the stage, or None."""
        sent = _segments(path)
        for route, segments in self._routes:
            if route.method in {method, ANY}:
                parameters = _parameters(segments, sent)
                if parameters is not None:
                    return Match(route, parameters)
        return None


def _rank(segment: str) -> int:
    return segment.startswith("{") + segment.endswith("+}")


def _segments(path: str) -> list[str]:
    return path.removeprefix("/").removesuffix("/").split("/")


def _parameters(segments: list[str], sent: list[str]) -> dict[str, str] | None:
    parameters = {}
    if segments[-1].endswith("+}") and len(sent) >= len(segments):
        rest = len(segments) - 1
        parameters[segments[-1][1:-2]] = "/".join(sent[rest:])
        segments, sent = segments[:rest], sent[:rest]
    if len(segments) != len(sent):
        return None
    for known, value in zip(segments, sent, strict=True):
        if not value:
            return None
        if known.startswith("{"):
            parameters[known[1:-1]] = value
        elif known != value:
            return None
    return parameters
