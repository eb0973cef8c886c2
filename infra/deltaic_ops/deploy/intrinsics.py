"""Resolve CloudFormation's intrinsic functions, parameters and conditions.

This supports only the intrinsic functions that template.yaml uses, and raises an error for any other. So a new one
cannot stay unresolved and make the local gateway differ from AWS.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from deltaic_ops.deploy.emulated_account import ACCOUNT, REGION

NO_VALUE = object()
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_:.]+)\}")


class TemplateError(ValueError):
    """The template uses an unsupported intrinsic function or syntax, or an undefined name."""


class _Loader(yaml.CSafeLoader):
    """YAML loader for CloudFormation's tags such as !Ref, based on libyaml because it is eight times as fast."""


def _tagged(loader: yaml.CSafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = str(value).split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    else:
        raise TemplateError(f"the argument of !{suffix} is neither a scalar, a list nor a map")
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)


def read(path: Path) -> dict[str, Any]:
    """Read a template, and replace short forms (`!Ref X`) by long forms (`{"Ref": "X"}`)."""
    document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 -- a SafeLoader with tags
    if not isinstance(document, dict):
        raise TemplateError(f"{path} is not a template: its root is not a map")
    return document


class Resolver:
    """Resolver of intrinsic functions for given parameters; raises TemplateError for unknown references.

    `names` maps `LogicalId` and `LogicalId.Attribute` to the values of `Ref` and `GetAtt`.
    """

    def __init__(self, document: Mapping[str, Any], parameters: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._document = document
        self._names = names
        self._parameters: dict[str, Any] = {}
        for name, declared in document.get("Parameters", {}).items():
            value = parameters.get(name, declared.get("Default", ""))
            if str(declared["Type"]).startswith(("CommaDelimitedList", "List<")):
                value = [part.strip() for part in str(value).split(",")]
            self._parameters[name] = value
        unknown = sorted(set(parameters) - set(self._parameters))
        if unknown:
            raise TemplateError(f"the template has no parameter {', '.join(unknown)}")
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self.reference,
            "Fn::GetAtt": lambda value: self.reference(".".join(value)),
            "Fn::Sub": self._substitute,
            "Fn::If": self._choose,
            "Fn::Join": lambda value: str(value[0]).join(str(part) for part in self(value[1])),
            "Fn::Split": lambda value: str(self(value[1])).split(value[0]),
            "Fn::Equals": lambda value: self(value[0]) == self(value[1]),
            "Fn::Not": lambda value: not self(value[0]),
            "Fn::And": lambda value: all(self(part) for part in value),
            "Fn::Or": lambda value: any(self(part) for part in value),
            "Fn::FindInMap": self._find_in_map,
            "Condition": self.condition,
        }

    def __call__(self, value: Any) -> Any:
        """Resolve all intrinsic functions in a value, and remove keys and items whose value is AWS::NoValue."""
        if isinstance(value, Mapping):
            if len(value) == 1:
                name, argument = next(iter(value.items()))
                # Policy statements have a key `Condition` too; in intrinsic functions, its value is a name.
                if name in self._functions and (name != "Condition" or isinstance(argument, str)):
                    return self._functions[name](argument)
                if str(name).startswith("Fn::"):
                    raise TemplateError(f"{name} is not supported: add it to the resolver of intrinsic functions")
            resolved = {key: self(item) for key, item in value.items()}
            return {key: item for key, item in resolved.items() if item is not NO_VALUE}
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = [self(item) for item in value]
            return [item for item in items if item is not NO_VALUE]
        return value

    def condition(self, name: str) -> bool:
        """Return whether a condition of the template is true."""
        conditions = self._document.get("Conditions", {})
        if name not in conditions:
            raise TemplateError(f"the template has no condition {name}")
        return bool(self(conditions[name]))

    def reference(self, name: str) -> Any:
        """Return the value of `Ref` (a name) or `GetAtt` (`Name.Attribute`)."""
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self._parameters:
            return self._parameters[name]
        if name in self._names:
            return self._names[name]
        raise TemplateError(f"the template refers to {name}, which is not defined")

    def _choose(self, branches: Sequence[Any]) -> Any:
        return self(branches[1] if self.condition(branches[0]) else branches[2])

    def _find_in_map(self, path: Sequence[Any]) -> Any:
        keys = [self(key) for key in path]
        value = self._document.get("Mappings", {})
        for key in keys:
            if key not in value:
                raise TemplateError(f"the template's Mappings have no value for {', '.join(map(str, keys))}")
            value = value[key]
        return value

    def _substitute(self, argument: Any) -> str:
        text, variables = (argument, {}) if isinstance(argument, str) else (argument[0], argument[1])
        values = {name: str(self(value)) for name, value in variables.items()}
        return _PLACEHOLDER.sub(lambda hit: values[hit[1]] if hit[1] in values else str(self.reference(hit[1])), text)


_FUNCTION = re.compile(r"arn:aws:lambda:[^:/]*:[^:/]*:function:(?P<name>[A-Za-z0-9_-]+)(:[A-Za-z0-9_-]+)?(/|$)")


def pseudo_parameters(region: str = REGION, account: str = ACCOUNT) -> dict[str, str]:
    """Return the values of CloudFormation's pseudo parameters, such as AWS::Region."""
    return {
        "AWS::Region": region,
        "AWS::AccountId": account,
        "AWS::Partition": "aws",
        "AWS::StackName": "deltaic",
        "AWS::URLSuffix": "amazonaws.com",
    }


def names_of(logical_id: str, kind: str, properties: Mapping[str, Any], resolve: Resolver) -> Iterator[tuple[str, str]]:
    """Yield references to a resource (`X`, `X.Arn`, ...), each with its value.

    A function with an alias also has `X.Alias`, the ARN that routes invoke.
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
    """Return the name of the function whose ARN is in a string; raises TemplateError without an ARN."""
    match = _FUNCTION.search(text)
    if match is None:
        raise TemplateError(f"'{text}' does not contain the ARN of a function")
    return match["name"]
