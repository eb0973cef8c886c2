"""The optional dependencies of the distribution, and the error for a command that needs a missing one."""

from importlib.util import find_spec

EXTRAS = {
    "console": ("jinja2", "python_multipart", "starlette", "uvicorn"),
    "load": ("duckdb", "python_calamine"),
    "local": ("awslambdaric", "hypercorn", "ministack", "samtranslator", "uvicorn"),
}
"""Modules that each extra installs.

`cli/console.py`, `cli/local` and `table load` need the extra of the same name, and `usage collect` needs `load`.
"""


def missing_extra(extra: str) -> str:
    """Return an error that says how to install a missing extra; empty if it is installed or does not exist."""
    missing = next((name for name in EXTRAS.get(extra, ()) if find_spec(name) is None), None)
    return f"{missing} is not installed: run `pip install 'deltaic[{extra}]'`" if missing else ""
