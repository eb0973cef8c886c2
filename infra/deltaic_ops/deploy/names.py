"""The names of the template's resources: what `Ref` and `GetAtt` give, which function an ARN names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deltaic_ops.deploy.emulated import ACCOUNT, REGION
from deltaic_ops.deploy.intrinsics import Resolver, TemplateError

_FUNCTION = re.compile(r"arn:aws:lambda:[^:/]*:[^:/]*:function:(?P<name>[A-Za-z0-9_-]+)(:[A-Za-z0-9_-]+)?(/|$)")


def pseudo_parameters(region: str = REGION, account: str = ACCOUNT) -> dict[str, str]:
    """Return the values of CloudFormation's own parameters."""
    return {
        "AWS::Region": region,
        "AWS::AccountId": account,
        "AWS::Partition": "aws",
        "AWS::StackName": "deltaic",
        "AWS::URLSuffix": "amazonaws.com",
    }


def names_of(logical_id: str, kind: str, properties: Mapping[str, Any], resolve: Resolver) -> Iterator[tuple[str, str]]:
    """Yield what a resource may be referred to by (`X`, `X.Arn`, ...) and what that gives.

    A function that publishes an alias has `X.Alias` too: the ARN of what routes shall invoke.
    """
    explicit = next(
        (
            properties[key]
            for key in ("FunctionName", "TableName", "LogGroupName", "RoleName", "Name")
            if key in properties
        ),
        None,
    )
    region, account = resolve.reference("AWS::Region"), resolve.reference("AWS::AccountId")
    name = f"deltaic-{logical_id}" if explicit is None else str(resolve(explicit))
    if kind == "AWS::S3::Bucket":
        name = name.lower()
    arns = {
        "AWS::Serverless::Function": f"arn:aws:lambda:{region}:{account}:function:{name}",
        "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{region}:{account}:table/{name}",
        "AWS::IAM::Role": f"arn:aws:iam::{account}:role/{name}",
        "AWS::SecretsManager::Secret": f"arn:aws:secretsmanager:{region}:{account}:secret:{name}",
        "AWS::S3::Bucket": f"arn:aws:s3:::{name}",
        "AWS::Logs::LogGroup": f"arn:aws:logs:{region}:{account}:log-group:{name}:*",
    }
    yield logical_id, name
    yield f"{logical_id}.Arn", arns.get(kind, name)
    if kind == "AWS::ApiGateway::DomainName":
        yield f"{logical_id}.RegionalDomainName", f"d-{logical_id.lower()}.execute-api.{region}.amazonaws.com"
    if kind == "AWS::Serverless::Function":
        yield f"{logical_id}Role", f"{name}-role"
        yield f"{logical_id}Role.Arn", f"arn:aws:iam::{account}:role/{name}-role"
        if "AutoPublishAlias" in properties:
            yield f"{logical_id}.Alias", f"{arns[kind]}:{properties['AutoPublishAlias']}"


def function_name(text: str) -> str:
    """Return the name of the function whose ARN, with or without an alias, is in the text (such as a route's URI)."""
    found = _FUNCTION.search(text)
    if found is None:
        raise TemplateError(f"{text} names no function by its ARN")
    return found["name"]
