"""The template.yaml as CloudFormation will see it: SAM's own transform, run offline."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltaic_ops.deploy.intrinsics import Resolver, read
from deltaic_ops.deploy.names import REGION, pseudo_parameters
from deltaic_ops.deploy.template import TEMPLATE

_BASIC_EXECUTION = "AWSLambdaBasicExecutionRole"


def transformed(path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the resources that CloudFormation would create, by logical id, their `Properties` resolved.

    Parameters, conditions and pseudo parameters are resolved; a reference to a resource stays visible as
    `${LogicalId}` or `${LogicalId.Attribute}`. Raises samtranslator's InvalidDocumentException for what SAM refuses.
    """
    given = dict(parameters or {})
    document = cloudformation(path, given)
    resolve = Resolver(document, given, pseudo_parameters(), symbolic=True)
    return {
        logical_id: {**resource, "Properties": resolve(resource.get("Properties", {}))}
        for logical_id, resource in document["Resources"].items()
        if "Condition" not in resource or resolve.condition(resource["Condition"])
    }


def cloudformation(path: Path = TEMPLATE, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the document that SAM hands to CloudFormation for these parameters, its intrinsics unresolved.

    Raises samtranslator's InvalidDocumentException for what SAM refuses.
    """
    return translated(_packaged(read(path)), parameters or {})


def translated(document: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a packaged template after SAM's transform, nothing resolved; raises as that."""
    import boto3
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    # SAM warns about usage metrics of its own that nobody publishes.
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    session = boto3.Session(region_name=REGION)
    policies = {_BASIC_EXECUTION: f"arn:aws:iam::aws:policy/service-role/{_BASIC_EXECUTION}"}
    translator = Translator(policies, Parser(), boto_session=session)
    values = {**pseudo_parameters(), **parameters}
    made: dict[str, Any] = translator.translate(document, parameter_values=values)
    return made


def _packaged(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as `sam package` leaves it: code lies in S3, and only there does the transform take it."""
    for logical_id, resource in document["Resources"].items():
        for key in ("CodeUri", "ContentUri"):
            if key in resource.get("Properties", {}):
                resource["Properties"][key] = f"s3://packaged/{logical_id}"
    return document
