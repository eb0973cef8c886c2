"""The commands of `deltaic storage`, including CORS rules of buckets."""

import sys
from typing import Annotated

import typer
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic.errors import NotFound

from deltaic_ops.cli.commands import Commands
from deltaic_ops.cli.operator import Operator
from deltaic_ops.local.bucket_cors import allow_origins, allows_origin, origin_of, rules_of

_ORIGIN = "Origin of the web page. Can be repeated. [default: that of the server's /explore page]"


def cors(
    cli: Operator,
    bucket: Annotated[str, typer.Argument(metavar="BUCKET", help="Name of the bucket.")],
    origin: Annotated[list[str] | None, typer.Option(metavar="URL", help=_ORIGIN)] = None,
    set_: Annotated[bool, typer.Option("--set", help="Allow these origins, and keep the other CORS rules.")] = False,
) -> None:
    r"""Show or set which web pages can read a bucket (CORS).

    Web pages such as /explore read signed URLs only if the bucket's CORS rules allow their origin.

    \b
    deltaic storage cors lake
    deltaic --stack deltaic-prod storage cors lake --set
    deltaic storage cors lake --origin https://sharing.example.com --set
    """
    from botocore.exceptions import ClientError

    origins = [origin_of(url) for url in origin or [cli.sharing_endpoint(None)]]
    s3 = cli.connection.client("s3")
    try:
        rules = allow_origins(s3, bucket, origins) if set_ else rules_of(s3, bucket)
    except ClientError as error:
        reason = f"{error.response['Error']['Code']}, {error.response['Error'].get('Message', '')}"
        raise NotFound(f"cannot {'set' if set_ else 'read'} the CORS rules of bucket '{bucket}': {reason}") from None
    if cli.as_json:
        cli.json({"bucket": bucket, "rules": rules, "lets": {url: allows_origin(rules, url) for url in origins}})
        return
    columns = [
        ("ORIGINS", lambda rule: ", ".join(rule["AllowedOrigins"])),
        ("METHODS", lambda rule: ", ".join(rule["AllowedMethods"])),
        ("HEADERS", lambda rule: ", ".join(rule.get("AllowedHeaders", ()))),
    ]
    if rules:
        cli.table(rules, columns)
    for url in origins:
        next_ = "" if allows_origin(rules, url) else f"; next: deltaic storage cors {bucket} --origin {url} --set"
        cli.note(f"web pages of {url} {'can' if not next_ else 'cannot'} read bucket {bucket}{next_}")


app = Commands()
app.command()(cors)

Name = Annotated[str, typer.Argument(metavar="STORAGE", help="Name of the storage.")]
_ENDPOINT = "URL at which the server reaches the object store. [default: AWS S3]"
_PUBLIC = "URL at which recipients reach the object store (in signed URLs), if different."
_PATH_STYLE = "Use path-style URLs: the bucket in the path, not in the host name."
_ROLE = "IAM role that the server assumes to read files and sign URLs."
_KEY_ID = "Access key id (requires --secret-access-key-stdin)."
_SECRET = "Read the secret access key from standard input."  # noqa: S105 -- a help text


@app.command()
def create(  # noqa: PLR0913, PLR0917 -- what a storage holds
    cli: Operator,
    name: Name,
    endpoint: Annotated[str, typer.Option(metavar="URL", help=_ENDPOINT)] = "",
    public_endpoint: Annotated[str, typer.Option(metavar="URL", help=_PUBLIC)] = "",
    region: Annotated[str, typer.Option(metavar="NAME", help="Region of the object store.")] = "us-east-1",
    path_style: Annotated[bool, typer.Option("--path-style/--no-path-style", help=_PATH_STYLE)] = False,
    role: Annotated[str, typer.Option(metavar="ARN", help=_ROLE)] = "",
    access_key_id: Annotated[str | None, typer.Option(metavar="ID", help=_KEY_ID)] = None,
    secret_access_key_stdin: Annotated[bool, typer.Option("--secret-access-key-stdin", help=_SECRET)] = False,
) -> None:
    r"""Create a storage: a named object store with shared tables.

    The server uses it to read tables. Access keys are stored only in Secrets Manager.

    \b
    deltaic storage create minio --endpoint http://minio:9000 --path-style \
        --access-key-id AKIDEXAMPLE --secret-access-key-stdin < key.txt
    deltaic storage create partner --role arn:aws:iam::123456789012:role/shares
    """
    keys = _keys(access_key_id, secret_access_key_stdin)
    created = cli.admin.storages.create(
        name,
        endpoint=endpoint,
        public_endpoint=public_endpoint,
        region=region,
        path_style=path_style,
        role_arn=role,
        access_keys=keys,
    )
    cli.show(created, f"created storage '{created.name}'; next: deltaic table create ... --storage {created.name}")


@app.command("list")
def list_(cli: Operator) -> None:
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
    cli.rows(cli.admin.storages.list(), columns, "no storages: the stack's role reads all tables from AWS S3")


@app.command()
def show(cli: Operator, name: Name) -> None:
    r"""Show a storage, without its keys.

    \b
    deltaic storage show minio
    """
    cli.show(cli.admin.storages.get(name))


@app.command()
def update(  # noqa: PLR0913, PLR0917 -- what a storage holds
    cli: Operator,
    name: Name,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help=_ENDPOINT)] = None,
    public_endpoint: Annotated[str | None, typer.Option(metavar="URL", help=_PUBLIC)] = None,
    region: Annotated[str | None, typer.Option(metavar="NAME", help="Region of the object store.")] = None,
    path_style: Annotated[bool | None, typer.Option("--path-style/--no-path-style", help=_PATH_STYLE)] = None,
    role: Annotated[str | None, typer.Option(metavar="ARN", help=_ROLE)] = None,
    access_key_id: Annotated[str | None, typer.Option(metavar="ID", help=_KEY_ID)] = None,
    secret_access_key_stdin: Annotated[bool, typer.Option("--secret-access-key-stdin", help=_SECRET)] = False,
) -> None:
    r"""Change a storage; options that you omit keep their values.

    \b
    deltaic storage update minio --public-endpoint https://s3.example.org
    """
    keys, before = _keys(access_key_id, secret_access_key_stdin), cli.admin.storages.get(name)
    changed = cli.admin.storages.update(
        name,
        endpoint=endpoint,
        public_endpoint=public_endpoint,
        region=region,
        path_style=path_style,
        role_arn=role,
        access_keys=keys,
    )
    cli.updated(f"storage '{changed.name}'", before, changed, (), "new access keys" if keys else "")


@app.command()
def delete(cli: Operator, name: Name) -> None:
    r"""Delete an unused storage and its access keys.

    \b
    deltaic storage delete minio
    """
    deleted = cli.admin.storages.delete(name)
    cli.show(deleted, f"deleted storage '{deleted.name}'")


def _keys(access_key_id: str | None, from_stdin: bool) -> AccessKeys | None:
    if (access_key_id is None) == from_stdin:
        raise typer.BadParameter("use --access-key-id and --secret-access-key-stdin together")
    if access_key_id is None:
        return None
    # From standard input, because every user of the machine can read the arguments of a process.
    return AccessKeys(access_key_id, sys.stdin.readline().strip())
