"""The command `deltaic remove`: list what is deleted and what stays, then delete the stack."""

import typer

from deltaic_ops.cli.operator import Operator, Yes
from deltaic_ops.deploy.deployed_stack import delete_stack, deletion_commands, read_stack


def remove(cli: Operator, yes: Yes = False) -> None:
    r"""Remove a stack, but keep its catalog, tokens and page-token key.

    Recipients lose access at once. The command lists what it keeps and prints commands that delete it. Run those
    before you deploy another stack of the same stage, because its tables would have the same names. `deltaic export`
    saves the catalog as files.

    \b
    deltaic remove
    deltaic --stack deltaic-dev remove
    deltaic --stack deltaic-dev remove --yes --json
    """
    client = cli.connection.client("cloudformation")
    stack = read_stack(client, cli.connection.stack)
    deleted = len(stack.resources) - len(stack.retained)
    cli.note(f"{stack.name}: deletes {deleted} resources, and {stack.outputs.get('Endpoint', 'the endpoint')}")
    cli.note(f"keeps {', '.join(stack.retained) or 'no resources'}, and all data buckets")
    cli.confirm(f"Remove stack {stack.name}?", yes=yes)
    delete_stack(client, stack)
    commands = deletion_commands(stack.retained)
    if cli.as_json:
        cli.json({"removed": stack.name, "kept": list(stack.retained), "deletions": commands})
        return
    cli.note(f"removed stack {stack.name}. To delete permanently what was kept, run:")
    typer.echo("\n".join(commands))
