"""Decides what the rest of the operator's side knows of template.yaml: routes, functions, errors, tables, keys, roles.

The local gateway serves what this reader finds, so that there is one route table and it is the template.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaic_ops.deploy.intrinsics import Resolver, TemplateError, read

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / "template.yaml"
_INTEGRATION = re.compile(r"functions/arn:aws:lambda:[^:]*:[^:]*:function:(?P<function>[A-Za-z0-9-]+)/")
_OfType = Callable[[str], list[tuple[str, dict[str, Any]]]]
_EVERY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, such as GET `/shares/{share}`, and the function (its logical id) that answers it."""

    method: str
    path: str
    function: str
    streamed: bool


@dataclass(frozen=True, slots=True)
class Function:
    """One Lambda function: where its code is and how it runs. `timeout` in seconds, `memory` in MB."""

    logical_id: str
    name: str
    code: Path
    handler: str
    environment: Mapping[str, str]
    timeout: int
    memory: int
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The TOKEN authorizer: its function, the header it reads, what a value must look like, seconds it is cached."""

    function: str
    header: str
    validation: re.Pattern[str]
    ttl: int


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """What the gateway itself answers for one of its error types; `status` None keeps the gateway's own."""

    status: int | None
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class Table:
    """One DynamoDB table: `request` are the arguments of CreateTable; `ttl_attribute` for UpdateTimeToLive."""

    logical_id: str
    name: str
    request: Mapping[str, Any]
    ttl_attribute: str | None


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret whose value is generated: its name and how many characters it has."""

    logical_id: str
    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Role:
    """One role that is not a function's own: trust document and inline policies by name."""

    logical_id: str
    name: str
    trust: Mapping[str, Any]
    policies: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Template:
    """What template.yaml says for one set of parameters; every intrinsic is resolved."""

    prefix: str
    """The stage name of the API, which is the protocol's `{prefix}`."""
    routes: tuple[Route, ...]
    functions: Mapping[str, Function]
    authorizer: Authorizer
    gateway_responses: Mapping[str, GatewayResponse]
    minimum_compression_size: int | None
    tables: Mapping[str, Table]
    secrets: Mapping[str, Secret]
    roles: Mapping[str, Role]
    outputs: Mapping[str, str]

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of all functions together; a name that two of them set differently is refused."""
        together: dict[str, str] = {}
        for function in self.functions.values():
            for name, value in function.environment.items():
                if together.setdefault(name, value) != value:
                    raise TemplateError(f"{name} differs between functions, so one process cannot run them all")
        return together


def load_template(
    path: Path = TEMPLATE,
    parameters: Mapping[str, str] | None = None,
    *,
    region: str = "us-east-1",
    account: str = "000000000000",
) -> Template:
    """Read a SAM template; `parameters` override its defaults.

    `Ref` and `GetAtt` of a resource give the name that the template sets (`TableName`, `Name`, ...), else
    `deltaic-<LogicalId>`; ARNs are those of the given region and account. Raises TemplateError for what it cannot read.
    """
    document = read(path)
    names = dict(_pseudo_parameters(region, account))
    resolve = Resolver(document, parameters or {}, names)
    for logical_id, resource in document["Resources"].items():
        names.update(_names_of(logical_id, resource, resolve, region, account))
    resources: dict[str, dict[str, Any]] = {
        logical_id: {"Type": resource["Type"], "Properties": resolve(resource.get("Properties", {}))}
        for logical_id, resource in document["Resources"].items()
        if "Condition" not in resource or resolve.condition(resource["Condition"])
    }
    of_type = _by_type(resources)
    defaults = resolve(document.get("Globals", {}).get("Function", {}))
    functions = {
        logical_id: _function(logical_id, properties, defaults, path.parent, names)
        for logical_id, properties in of_type("AWS::Serverless::Function")
    }
    [(_, api)] = of_type("AWS::Serverless::Api")
    by_name = {function.name: logical_id for logical_id, function in functions.items()}
    return Template(
        prefix=str(api["StageName"]),
        routes=tuple(sorted(_routes(of_type, api, by_name), key=lambda route: (route.path, route.method))),
        functions=functions,
        authorizer=_authorizer(api, by_name),
        gateway_responses={name: _gateway_response(said) for name, said in api.get("GatewayResponses", {}).items()},
        minimum_compression_size=api.get("MinimumCompressionSize"),
        tables={logical_id: _table(logical_id, said) for logical_id, said in of_type("AWS::DynamoDB::Table")},
        secrets={
            logical_id: Secret(logical_id, said["Name"], said["GenerateSecretString"]["PasswordLength"])
            for logical_id, said in of_type("AWS::SecretsManager::Secret")
        },
        roles={
            logical_id: Role(
                logical_id,
                names[logical_id],
                said["AssumeRolePolicyDocument"],
                {policy["PolicyName"]: policy["PolicyDocument"] for policy in said.get("Policies", [])},
            )
            for logical_id, said in of_type("AWS::IAM::Role")
        },
        outputs={name: str(resolve(said["Value"])) for name, said in document.get("Outputs", {}).items()},
    )


def _pseudo_parameters(region: str, account: str) -> Mapping[str, str]:
    return {
        "AWS::Region": region,
        "AWS::AccountId": account,
        "AWS::Partition": "aws",
        "AWS::StackName": "deltaic",
        "AWS::URLSuffix": "amazonaws.com",
    }


def _names_of(
    logical_id: str, resource: Mapping[str, Any], resolve: Resolver, region: str, account: str
) -> Iterator[tuple[str, str]]:
    kind, properties = resource["Type"], resource.get("Properties", {})
    said = next(
        (
            properties[key]
            for key in ("FunctionName", "TableName", "LogGroupName", "RoleName", "Name")
            if key in properties
        ),
        None,
    )
    name = f"deltaic-{logical_id}" if said is None else str(resolve(said))
    arns = {
        "AWS::Serverless::Function": f"arn:aws:lambda:{region}:{account}:function:{name}",
        "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{region}:{account}:table/{name}",
        "AWS::IAM::Role": f"arn:aws:iam::{account}:role/{name}",
        "AWS::SecretsManager::Secret": f"arn:aws:secretsmanager:{region}:{account}:secret:{name}",
        "AWS::Logs::LogGroup": f"arn:aws:logs:{region}:{account}:log-group:{name}:*",
    }
    yield logical_id, name
    yield f"{logical_id}.Arn", arns.get(kind, name)
    if kind == "AWS::Serverless::Function":
        yield f"{logical_id}Role", f"{name}-role"
        yield f"{logical_id}Role.Arn", f"arn:aws:iam::{account}:role/{name}-role"


def _by_type(resources: Mapping[str, dict[str, Any]]) -> _OfType:
    def of_type(kind: str) -> list[tuple[str, dict[str, Any]]]:
        return [(key, said["Properties"]) for key, said in resources.items() if said["Type"] == kind]

    return of_type


def _function(
    logical_id: str, said: Mapping[str, Any], defaults: Mapping[str, Any], folder: Path, names: Mapping[str, str]
) -> Function:
    together = {**defaults, **said}
    environment = {
        **defaults.get("Environment", {}).get("Variables", {}),
        **said.get("Environment", {}).get("Variables", {}),
    }
    return Function(
        logical_id=logical_id,
        name=names[logical_id],
        code=folder / together["CodeUri"],
        handler=together["Handler"],
        environment={name: str(value) for name, value in environment.items()},
        timeout=int(together["Timeout"]),
        memory=int(together["MemorySize"]),
        layers=tuple(together.get("Layers", ())),
    )


def _routes(of_type: _OfType, api: Mapping[str, Any], by_name: Mapping[str, str]) -> Iterator[Route]:
    for logical_id, said in of_type("AWS::Serverless::Function"):
        for event in said.get("Events", {}).values():
            if event["Type"] == "Api":
                yield Route(
                    event["Properties"]["Method"].upper(), event["Properties"]["Path"], logical_id, streamed=False
                )
    for path, methods in api.get("DefinitionBody", {}).get("paths", {}).items():
        for method, operation in methods.items():
            if method.upper() not in _EVERY_METHOD:
                raise TemplateError(f"{method} {path} of the API's body is not a method that the gateway can route")
            integration = operation["x-amazon-apigateway-integration"]
            yield Route(
                method.upper(),
                path,
                by_name[_function_name(integration["uri"])],
                streamed=integration.get("responseTransferMode") == "STREAM",
            )


def _function_name(uri: str) -> str:
    found = _INTEGRATION.search(uri)
    if found is None:
        raise TemplateError(f"{uri} is not the integration URI of a function")
    return found["function"]


def _authorizer(api: Mapping[str, Any], by_name: Mapping[str, str]) -> Authorizer:
    said = api["Auth"]["Authorizers"][api["Auth"]["DefaultAuthorizer"]]
    identity = said["Identity"]
    return Authorizer(
        function=by_name[str(said["FunctionArn"]).rsplit(":", 1)[-1]],
        header=identity["Header"],
        validation=re.compile(identity["ValidationExpression"]),
        ttl=int(identity["ReauthorizeEvery"]),
    )


def _gateway_response(said: Mapping[str, Any]) -> GatewayResponse:
    headers = said.get("ResponseParameters", {}).get("Headers", {})
    return GatewayResponse(
        status=int(said["StatusCode"]) if "StatusCode" in said else None,
        # A header's value is a static string in quotes; anything else is a mapping, which the gateway would resolve.
        headers={name: str(value).strip("'") for name, value in headers.items()},
        body=said["ResponseTemplates"]["application/json"],
    )


def _table(logical_id: str, said: Mapping[str, Any]) -> Table:
    in_create_table = (
        "TableName",
        "BillingMode",
        "AttributeDefinitions",
        "KeySchema",
        "GlobalSecondaryIndexes",
        "LocalSecondaryIndexes",
    )
    return Table(
        logical_id=logical_id,
        name=said["TableName"],
        request={key: said[key] for key in in_create_table if key in said},
        ttl_attribute=said.get("TimeToLiveSpecification", {}).get("AttributeName"),
    )
