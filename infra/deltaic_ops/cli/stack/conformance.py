"""The command `deltaic conformance`: run the conformance kit, with colored results."""

import typer
from delta_sharing_conformance.command import check_server
from delta_sharing_conformance.profile import ProfileError
from delta_sharing_conformance.run import CheckResult
from deltaic.errors import InvalidParameter
from deltaic_terminal.printing import called, text_console

from deltaic_ops.cli.operator import finding_line, operator

_STYLES = {"holds": "green", "fails": "bold red", "not tried": "yellow"}

app = typer.Typer(add_completion=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def conformance(ctx: typer.Context) -> None:
    """Check any Delta Sharing server against the protocol; --help lists the kit's own options."""
    operator(ctx, as_json="--json" in ctx.args)  # sets the format of errors
    try:
        raise typer.Exit(check_server(ctx.args, f"{called()} conformance", _show))
    except ProfileError as error:
        raise InvalidParameter(str(error)) from None


def _show(result: CheckResult) -> None:
    check = f"{result.section:<40} {result.title}:"
    remedy = result.remedy and f"{'':10}must: {result.remedy}"
    line = finding_line(f"{result.result:<9}", _STYLES[result.result], check, result.said, remedy)
    text_console().print(line, soft_wrap=True)
