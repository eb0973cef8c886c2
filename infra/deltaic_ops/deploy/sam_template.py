"""The template.yaml as the rest of the operator's side knows it: routes, functions, errors, tables, keys, roles.

The local gateway serves what this reader finds, so that there is one route table and it is the template.
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
"""The folder of template.yaml and functions: of the checkout, or what an installed package has of it."""

TEMPLATE = ROOT / "template.yaml"


@dataclass(frozen=True, slots=True)
class Function:
    """One Lambda function: where its code is and how it runs. `timeout` in seconds, `memory` in MB."""

    name: str
    arn: str
    """What routes invoke: the alias, if one is published."""
    code: Path
    handler: str
    environment: Mapping[str, str]
    timeout: int
    memory: int


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
    binary_media_types: tuple[str, ...]
    tables: Mapping[str, Mapping[str, Any]]
    """Properties of DynamoDB tables, by logical ids."""
    secrets: Mapping[str, Mapping[str, Any]]
    """Properties of generated secrets, by logical ids."""
    roles: Mapping[str, Mapping[str, Any]]
    """Properties of roles that are no function's own, by names."""
    signing_keys: tuple[str, ...]
    """The aliases of KMS keys that sign (P-256)."""
    buckets: tuple[str, ...]
    """The names of the stack's own buckets."""
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
    path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None, *, region: str = REGION, account: str = ACCOUNT
) -> Template:
    """Read a SAM template; `parameters` override its defaults.

    `Ref` and `GetAtt` of a resource give the name that the template sets (`TableName`, `Name`, ...), else
    `deltaic-<LogicalId>`; ARNs are those of the given region and account. Raises TemplateError for what it cannot read.
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
        """Resolve the resources of one kind alone: others may refer to what only AWS can tell."""
        resources = {key: one for key, one in document["Resources"].items() if one["Type"] == kind and applies(one)}
        return {key: resolve(one.get("Properties", {})) for key, one in resources.items()}

    defaults, serverless = resolve(globals_), of_kind("AWS::Serverless::Function")
    functions = {key: _function(key, one, defaults, path.parent, names) for key, one in serverless.items()}
    [api] = of_kind("AWS::Serverless::Api").values()
    by_name = {function.name: logical_id for logical_id, function in functions.items()}
    routes = [route for logical_id, one in serverless.items() for route in routes_of_events(logical_id, one)]
    routes += routes_of_body(api, by_name)
    return Template(
        prefix=str(api["StageName"]),
        routes=tuple(sorted(routes, key=lambda route: (route.path, route.method))),
        functions=functions,
        authorizer=Authorizer.read(api, by_name),
        gateway_responses={name: GatewayResponse.read(one) for name, one in api.get("GatewayResponses", {}).items()},
        minimum_compression_size=api.get("MinimumCompressionSize"),
        binary_media_types=tuple(kind.replace("~1", "/") for kind in api.get("BinaryMediaTypes", ())),
        tables=of_kind("AWS::DynamoDB::Table"),
        secrets=of_kind("AWS::SecretsManager::Secret"),
        roles={names[key]: one for key, one in of_kind("AWS::IAM::Role").items()},
        signing_keys=tuple(one["AliasName"] for one in of_kind("AWS::KMS::Alias").values()),
        buckets=tuple(names[key] for key in of_kind("AWS::S3::Bucket")),
        outputs={name: str(resolve(one["Value"])) for name, one in document.get("Outputs", {}).items() if applies(one)},
    )


def _function(
    logical_id: str, properties: Mapping[str, Any], defaults: Mapping[str, Any], folder: Path, names: Mapping[str, str]
) -> Function:
    together = {**defaults, **properties}
    environment = {
        **defaults.get("Environment", {}).get("Variables", {}),
        **properties.get("Environment", {}).get("Variables", {}),
    }
    return Function(
        name=names[logical_id],
        arn=names.get(f"{logical_id}.Alias", names[f"{logical_id}.Arn"]),
        code=folder / together["CodeUri"],
        handler=together["Handler"],
        environment={name: str(value) for name, value in environment.items()},
        timeout=int(together["Timeout"]),
        memory=int(together["MemorySize"]),
    )
