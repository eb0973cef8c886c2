"""Typer application for the commands of one noun: passes the Operator and adds the option --json."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
_Run = TypeVar("_Run", bound=Callable[..., None])


class Commands(typer.Typer):
    """The commands of one noun.

    A function whose first parameter is `cli` receives the Operator, and its command gets the option --json. Other
    functions become plain Typer commands.
    """

    def __init__(self, *, no_args_is_help: bool = True) -> None:
        super().__init__(no_args_is_help=no_args_is_help, add_completion=False)

    def command(self, name: str | None = None, *, without: str = "", **settings: Any) -> Callable[[_Run], _Run]:
        """Register a function as a command, by default under its own name, without the parameter named `without`."""
        register = super().command(name, **settings)

        def registered(run: _Run) -> _Run:
            register(_with_operator(run, without))
            return run

        return registered


def _with_operator(run: Callable[..., None], without: str) -> Callable[..., None]:
    signature = inspect.signature(run)
    if next(iter(signature.parameters), "") != "cli":
        return run
    first, *parameters = signature.parameters.values()

    def typed(ctx: typer.Context, as_json: bool, **arguments: Any) -> None:
        ctx.obj.as_json = as_json
        run(ctx.obj, **arguments)

    context = first.replace(name="ctx", annotation=typer.Context)
    switch = first.replace(name="as_json", annotation=AsJson, default=False)
    parameters = [context, *(parameter for parameter in parameters if parameter.name != without), switch]
    typed.__name__, typed.__doc__ = run.__name__, run.__doc__
    typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    typed.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return typed
