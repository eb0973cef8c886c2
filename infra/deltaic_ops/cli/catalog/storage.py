"""The commands of `deltaic storage`, and of which web pages a bucket lets read (CORS)."""

import sys
from typing import Annotated

import typer
from deltaic.catalog.admin.storages import AccessKeys
from deltaic.errors import NotFound

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.operator import Operator
from deltaic_ops.local.bucket_cors import let, lets, origin_of, rules_of


def cors(
    out: Operator,
    bucket: Annotated[str, typer.Argument(metavar="BUCKET")],
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where the page is, such as https://sharing.example.com; else the endpoint."),
    ] = None,
    set_: Annotated[bool, typer.Option("--set", help="Let it read; rules of others are kept.")] = False,
) -> None:
    r"""Show which web pages may read a bucket's objects by signed URLs, or let the page at /explore.

    \b
    deltaic storage cors lake
    deltaic --stack deltaic-prod storage cors lake --set
    deltaic storage cors lake --origin https://sharing.example.com --set
    """
    from botocore.exceptions import ClientError

    wanted = [origin_of(one) for one in origin or [out.sharing_endpoint(None)]]
    s3 = out.connection.client("s3")
    try:
        rules = let(s3, bucket, wanted) if set_ else rules_of(s3, bucket)
    except ClientError as error:
        said = error.response["Error"]
        raise NotFound(f"the rules of the bucket '{bucket}': {said['Code']}, {said.get('Message', '')}") from None
    if out.as_json:
        out.json({"bucket": bucket, "rules": rules, "lets": {one: lets(rules, one) for one in wanted}})
        return
    columns = [
        ("ORIGINS", lambda rule: ", ".join(rule["AllowedOrigins"])),
        ("METHODS", lambda rule: ", ".join(rule["AllowedMethods"])),
        ("HEADERS", lambda rule: ", ".join(rule.get("AllowedHeaders", ()))),
    ]
    if rules:
        out.table(rules, columns)
    for one in wanted:
        next_ = "" if lets(rules, one) else f"; next: deltaic storage cors {bucket} --origin {one} --set"
        out.note(f"pages of {one} may {'' if not next_ else 'not '}read {bucket}{next_}")


app = Commands()
app.command()(cors)

Name = Annotated[str, typer.Argument(metavar="STORAGE")]
_ENDPOINT = "Where the server reaches the store; AWS S3 if not given."
_PUBLIC = "Where recipients reach it, if elsewhere: signed URLs name it."
_PATH_STYLE = "Put the bucket into the path instead of the host name."
_ROLE = "A role to assume for reading and signing."
_KEY_ID = "Its access key; the secret key is read from standard input."
_SECRET = "Read the secret access key from standard input."  # noqa: S105 -- a help text


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a storage holds
    out: Operator,
    name: Name,
    endpoint: Annotated[str, typer.Option(metavar="URL", help=_ENDPOINT)] = "",
    public_endpoint: Annotated[str, typer.Option(metavar="URL", help=_PUBLIC)] = "",
    region: Annotated[str, typer.Option(help="The store's region.")] = "us-east-1",
    path_style: Annotated[bool, typer.Option("--path-style/--no-path-style", help=_PATH_STYLE)] = False,
    role: Annotated[str, typer.Option(metavar="ARN", help=_ROLE)] = "",
    access_key_id: Annotated[str | None, typer.Option(help=_KEY_ID)] = None,
    secret_access_key_stdin: Annotated[bool, typer.Option("--secret-access-key-stdin", help=_SECRET)] = False,
) -> None:
    r"""Name a store that tables lie in; its access keys go to Secrets Manager and nowhere else.

    \b
    deltaic storage create minio --endpoint http://minio:9000 --path-style \
        --access-key-id AKIDEXAMPLE --secret-access-key-stdin < key.txt
    deltaic storage create partner --role arn:aws:iam::123456789012:role/shares --region eu-west-1
    """
    keys = _keys(access_key_id, secret_access_key_stdin)
    made = out.admin.storages.create(
        name,
        endpoint=endpoint,
        public_endpoint=public_endpoint,
        region=region,
        path_style=path_style,
        role_arn=role,
        access_keys=keys,
    )
    out.show(made, f"made storage '{made.name}'; next: deltaic table create ... --storage {made.name}")


@app.command("list")
def list_(out: Operator) -> None:
    r"""List all storages.

    \b
    deltaic storage list
    """
    columns = [
        ("NAME", lambda storage: storage.name),
        ("ENDPOINT", lambda storage: storage.endpoint or "AWS S3"),
        ("REGION", lambda storage: storage.region),
        ("READ AS", lambda storage: storage.role_arn or storage.secret or "the stack's role"),
    ]
    out.rows(out.admin.storages.list(), columns, "there is no storage: tables lie in AWS S3, read by the stack's role")


@app.command()
def show(out: Operator, name: Name) -> None:
    r"""Show one storage, without its keys.

    \b
    deltaic storage show minio
    """
    out.show(out.admin.storages.get(name))


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a storage holds
    out: Operator,
    name: Name,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help=_ENDPOINT)] = None,
    public_endpoint: Annotated[str | None, typer.Option(metavar="URL", help=_PUBLIC)] = None,
    region: Annotated[str | None, typer.Option(help="The store's region.")] = None,
    path_style: Annotated[bool | None, typer.Option("--path-style/--no-path-style", help=_PATH_STYLE)] = None,
    role: Annotated[str | None, typer.Option(metavar="ARN", help=_ROLE)] = None,
    access_key_id: Annotated[str | None, typer.Option(help=_KEY_ID)] = None,
    secret_access_key_stdin: Annotated[bool, typer.Option("--secret-access-key-stdin", help=_SECRET)] = False,
) -> None:
    r"""Change what is given and keep the rest; new access keys replace the old ones.

    \b
    deltaic storage update minio --public-endpoint https://s3.example.org
    """
    keys = _keys(access_key_id, secret_access_key_stdin)
    changed = out.admin.storages.update(
        name,
        endpoint=endpoint,
        public_endpoint=public_endpoint,
        region=region,
        path_style=path_style,
        role_arn=role,
        access_keys=keys,
    )
    out.show(changed, f"changed storage '{changed.name}'")


@app.command()
def delete(out: Operator, name: Name) -> None:
    r"""Delete a storage that no table lies in, and its access keys.

    \b
    deltaic storage delete minio
    """
    gone = out.admin.storages.delete(name)
    out.show(gone, f"deleted storage '{gone.name}'")


def _keys(access_key_id: str | None, from_stdin: bool) -> AccessKeys | None:
    if (access_key_id is None) == from_stdin:
        raise typer.BadParameter("--access-key-id and --secret-access-key-stdin go together")
    if access_key_id is None:
        return None
    # From standard input: what stands on a command line, every user of the machine can read.
    return AccessKeys(access_key_id, sys.stdin.readline().strip())
