"""SAM's own transform, run offline: the template as CloudFormation gets it."""

import logging
from collections.abc import Mapping
from typing import Any

from deltaic_ops.deploy.emulated import REGION
from deltaic_ops.deploy.names import pseudo_parameters

_BASIC_EXECUTION = "AWSLambdaBasicExecutionRole"


def translated(document: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a packaged template after SAM's transform, nothing resolved.

    Raises samtranslator's InvalidDocumentException for what SAM refuses.
    """
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
