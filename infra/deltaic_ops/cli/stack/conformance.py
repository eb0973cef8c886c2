"""The command `deltaic conformance`: run the conformance kit."""

from pathlib import Path
from typing import Annotated

import typer
from delta_sharing_conformance.command import check_server
from delta_sharing_conformance.profile import ProfileError
from delta_sharing_conformance.run import MAX_TABLES
from deltaic.errors import InvalidParameter

from deltaic_ops.cli.operator import Operator


def conformance(
    cli: Operator,
    profile: Annotated[Path, typer.Option(metavar="FILE", help="Profile file of a recipient.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Endpoint. [default: that of the profile]")] = "",
    tables: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of tables per share.")] = MAX_TABLES,
) -> None:
    r"""Check any Delta Sharing or OpenSharing server against the protocol.

    Each line shows a result (holds, fails or not tried), the section of the protocol, the check, and details. The
    checks read whole tables several times, so share small ones. The exit code is 1 if a check fails.

    \b
    deltaic conformance --profile alice.share
    deltaic conformance https://sharing.example.com/delta-sharing --profile alice.share --tables 5
    """
    try:
        raise typer.Exit(check_server(profile, url, tables=tables, as_json=cli.as_json))
    except ProfileError as error:
        raise InvalidParameter(str(error)) from None
