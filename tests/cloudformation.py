"""The template.yaml as CloudFormation will see it, references to resources left visible."""

import pickle
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deltaic_ops.deploy.intrinsics import Resolver, TemplateError, pseudo_parameters, read
from deltaic_ops.deploy.sam import translate
from deltaic_ops.deploy.sam_template import TEMPLATE


class _Symbolic(Resolver):
    """Resolver that resolves an unknown name to itself, as `${LogicalId.Attribute}`."""

    def reference(self, name: str) -> Any:
        try:
            return super().reference(name)
        except TemplateError:
            return f"${{{name}}}"


def transformed(path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the resources that CloudFormation would create, by logical id, their `Properties` resolved.

    Parameters, conditions and pseudo parameters are resolved; a reference to a resource stays visible as
    `${LogicalId}` or `${LogicalId.Attribute}`. Raises samtranslator's InvalidDocumentException for what SAM refuses.
    """
    pairs = tuple(sorted((parameters or {}).items()))
    resources: dict[str, dict[str, Any]] = pickle.loads(_transformed(path, path.stat().st_mtime_ns, pairs))  # noqa: S301 -- of this process
    return resources


@cache
def _transformed(path: Path, _: int, pairs: tuple[tuple[str, str], ...]) -> bytes:
    """Return the resources pickled: the transform takes half a second, and each caller gets a separate copy."""
    parameters = dict(pairs)
    document = cloudformation(path, parameters)
    resolve = _Symbolic(document, parameters, pseudo_parameters())
    return pickle.dumps(
        {
            logical_id: {**resource, "Properties": resolve(resource.get("Properties", {}))}
            for logical_id, resource in document["Resources"].items()
            if "Condition" not in resource or resolve.condition(resource["Condition"])
        }
    )


def cloudformation(path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the document that SAM hands to CloudFormation for these parameters, its intrinsics unresolved.

    Raises samtranslator's InvalidDocumentException for what SAM refuses.
    """
    return translate(packaged(read(path)), parameters or {})


def packaged(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as after `sam package`, with code in S3, which the transform requires."""
    for logical_id, resource in document["Resources"].items():
        for key in ("CodeUri", "ContentUri"):
            if key in resource.get("Properties", {}):
                resource["Properties"][key] = f"s3://packaged/{logical_id}"
    return document
