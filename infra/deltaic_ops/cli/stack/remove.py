"""The command `deltaic remove`: it says what goes and what stays before anything does."""

import typer
from deltaic.errors import InvalidParameter

from deltaic_ops.cli.operator import Operator, Yes
from deltaic_ops.deploy.deployed_stack import deletions, read_stack
from deltaic_ops.deploy.deployed_stack import remove as delete


def remove(out: Operator, yes: Yes = False) -> None:
    r"""Remove a stack: recipients are cut off at once; the catalog, the tokens and the key stay.

    The command lists what stays before and after, with the commands that delete it. A stack of the same stage can be
    deployed again only after that, because its tables have the same names. `deltaic export` keeps the catalog as files.

    \b
    deltaic remove
    deltaic --stack deltaic-dev remove
    deltaic --stack deltaic-dev remove --yes --json
    """
    client = out.connection.client("cloudformation")
    stack = read_stack(client, out.connection.stack)
    if not stack.ours:
        raise InvalidParameter(f"'{stack.name}' is not a stack of Deltaic's: it is left alone")
    going = len(stack.resources) - len(stack.kept)
    out.note(f"{stack.name}: {going} resources go, and with them {stack.outputs.get('Endpoint', 'the endpoint')}")
    out.note(f"these stay: {', '.join(stack.kept) or 'none'}; and so do all data buckets")
    out.confirm(f"Remove {stack.name}?", yes=yes)
    delete(client, stack)
    commands = deletions(stack.kept)
    if out.as_json:
        out.json({"removed": stack.name, "kept": list(stack.kept), "deletions": commands})
        return
    out.note(f"{stack.name} is removed. What stays is deleted, for good, by:")
    typer.echo("\n".join(commands))
