"""Read routes, functions, gateway responses, tables, keys and roles from template.yaml.

The local gateway serves these routes, so that the template is the only route table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaic_ops.deploy.api import Authorizer, GatewayResponse, Route, routes_of_body, routes_of_events
from deltaic_ops.deploy.emulated_account import ACCOUNT, REGION
from deltaic_ops.deploy.intrinsics import Resolver, TemplateError, names_of, pseudo_parameters, read

_INSTALLED = Path(__file__).resolve().parents[1] / "source"
ROOT = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).resolve().parents[3]
"""Folder with template.yaml and functions/: a checkout, or `source` in an installed package."""

TEMPLATE = ROOT / "template.yaml"


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda function, with its timeout in seconds and memory in MB."""

    name: str
    arn: str
    """ARN that routes invoke: that of the function's alias, if it has one."""
    code: Path
    handler: str
    environment: Mapping[str, str]
    timeout: int
    memory: int


@dataclass(frozen=True, slots=True)
class Template:
    """Content of template.yaml with given parameters and resolved intrinsic functions."""

    prefix: str
    """Stage name of the API, which is `{prefix}` in the URLs of the Delta Sharing protocol."""
    routes: tuple[Route, ...]
    functions: Mapping[str, Function]
    authorizer: Authorizer
    gateway_responses: Mapping[str, GatewayResponse]
    minimum_compression_size: int | None
    binary_media_types: tuple[str, ...]
    tables: Mapping[str, Mapping[str, Any]]
    """Properties of DynamoDB tables, by logical id."""
    secrets: Mapping[str, Mapping[str, Any]]
    """Properties of generated secrets, by logical id."""
    roles: Mapping[str, Mapping[str, Any]]
    """Properties of roles that the template declares explicitly, by role name."""
    signing_keys: tuple[str, ...]
    """Aliases of KMS signing keys (P-256)."""
    buckets: tuple[str, ...]
    outputs: Mapping[str, str]

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of all functions; raises TemplateError if functions need different values."""
        merged: dict[str, str] = {}
        for function in self.functions.values():
            for name, value in function.environment.items():
                if merged.setdefault(name, value) != value:
                    raise TemplateError(f"functions have different values of {name}, so they cannot share one process")
        return merged


def load_template(
    path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None, *, region: str = REGION, account: str = ACCOUNT
) -> Template:
    """Read a SAM template; `parameters` override its default parameters. Raises TemplateError.

    `Ref` and `GetAtt` of a resource give its name in the template (`TableName`, `Name`, ...), or
    `deltaic-<LogicalId>` if it has none. ARNs have the region and account of the arguments.
    """
    document = read(path)
    names = pseudo_parameters(region, account)
    resolve = Resolver(document, parameters or {}, names)
    globals_ = document.get("Globals", {}).get("Function", {})
    for logical_id, resource in document["Resources"].items():
        inherited = globals_ if resource["Type"] == "AWS::Serverless::Function" else {}
        names.update(names_of(logical_id, resource["Type"], {**inherited, **resource.get("Properties", {})}, resolve))

    def applies(entry: Mapping[str, Any]) -> bool:
        return "Condition" not in entry or resolve.condition(entry["Condition"])

    def of_kind(kind: str) -> dict[str, Any]:
        """Resolve only resources of one type, because others can refer to values that only AWS knows."""
        resources = {key: item for key, item in document["Resources"].items() if item["Type"] == kind and applies(item)}
        return {key: resolve(resource.get("Properties", {})) for key, resource in resources.items()}

    defaults, serverless = resolve(globals_), of_kind("AWS::Serverless::Function")
    functions = {key: _function(key, values, defaults, path.parent, names) for key, values in serverless.items()}
    [api] = of_kind("AWS::Serverless::Api").values()
    outputs = document.get("Outputs", {})
    by_name = {function.name: logical_id for logical_id, function in functions.items()}
    routes = [route for logical_id, values in serverless.items() for route in routes_of_events(logical_id, values)]
    routes += routes_of_body(api, by_name)
    return Template(
        prefix=str(api["StageName"]),
        routes=tuple(sorted(routes, key=lambda route: (route.path, route.method))),
        functions=functions,
        authorizer=Authorizer.read(api, by_name),
        gateway_responses={name: GatewayResponse.read(item) for name, item in api.get("GatewayResponses", {}).items()},
        minimum_compression_size=api.get("MinimumCompressionSize"),
        binary_media_types=tuple(kind.replace("~1", "/") for kind in api.get("BinaryMediaTypes", ())),
        tables=of_kind("AWS::DynamoDB::Table"),
        secrets=of_kind("AWS::SecretsManager::Secret"),
        roles={names[key]: role for key, role in of_kind("AWS::IAM::Role").items()},
        signing_keys=tuple(alias["AliasName"] for alias in of_kind("AWS::KMS::Alias").values()),
        buckets=tuple(names[key] for key in of_kind("AWS::S3::Bucket")),
        outputs={name: str(resolve(output["Value"])) for name, output in outputs.items() if applies(output)},
    )


def _function(
    logical_id: str, properties: Mapping[str, Any], defaults: Mapping[str, Any], folder: Path, names: Mapping[str, str]
) -> Function:
    merged = {**defaults, **properties}
    environment = {
        **defaults.get("Environment", {}).get("Variables", {}),
        **properties.get("Environment", {}).get("Variables", {}),
    }
    return Function(
        name=names[logical_id],
        arn=names.get(f"{logical_id}.Alias", names[f"{logical_id}.Arn"]),
        code=folder / merged["CodeUri"],
        handler=merged["Handler"],
        environment={name: str(value) for name, value in environment.items()},
        timeout=int(merged["Timeout"]),
        memory=int(merged["MemorySize"]),
    )
