"""Decides how Typer reads what was typed: texts as they are; pydantic is imported only for what is to be converted.

Typer hands every value to pydantic, whose import is half of the time of a short command, also a text that stays a text
and an option that was not given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param


@dataclass(frozen=True)
class _Lazy(RuntimeParam):
    """Typer's own conversion, made when there is something to convert."""

    descriptor: TypeDescriptor

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.annotation is str and isinstance(value, str) and self.parameter_info.parser is None:
            return value
        param._runtime_param = build_runtime_param(self.descriptor)  # noqa: SLF001 -- where Typer keeps it
        return param._runtime_param.coerce(value, param=param, ctx=ctx)  # noqa: SLF001 -- as above


def read_plainly(params: Iterable[Any]) -> None:
    """Have parameters read so; those that are not Typer's stay as they are."""
    for param in params:
        found = getattr(param, "type_descriptor", None)
        if found is not None:
            param._runtime_param = _Lazy(found.parameter_info, found.annotation, found)  # noqa: SLF001 -- as above
