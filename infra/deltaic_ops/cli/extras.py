"""The optional packages of the distribution, and the message of a command that lacks one."""

from importlib.util import find_spec

EXTRAS = {
    "console": ("jinja2", "starlette", "uvicorn"),
    "local": ("awslambdaric", "hypercorn", "ministack", "samtranslator", "uvicorn"),
}
"""Modules that each extra in pyproject.toml installs."""


def missing_extra(extra: str) -> str:
    """Return how to install an extra if a module of it is not installed, else an empty string."""
    missing = next((name for name in EXTRAS[extra] if find_spec(name) is None), None)
    return f"{missing} is not installed: `pip install 'deltaic[{extra}]'` brings it" if missing else ""
