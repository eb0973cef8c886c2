"""The optional packages of the distribution, and the message of a command that lacks one."""

from importlib.util import find_spec

EXTRAS = {
    "console": ("jinja2", "starlette", "uvicorn"),
    "local": ("awslambdaric", "hypercorn", "ministack", "samtranslator", "uvicorn"),
}
"""Modules that each extra installs. `cli/console.py` and the commands in `cli/local` need the extra of that name."""


def missing_extra(extra: str) -> str:
    """Return how to install an extra of which a module is missing; empty if none is, or if there is no such extra."""
    missing = next((name for name in EXTRAS.get(extra, ()) if find_spec(name) is None), None)
    return f"{missing} is not installed: `pip install 'deltaic[{extra}]'` brings it" if missing else ""
