"""The command `deltaic storage cors`: which web pages a bucket lets read, the page at /explore among them."""

from typing import Annotated

import typer
from deltaic.errors import NotFound

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
