"""Invoke a Lambda function asynchronously."""

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import CONTROL, botocore_config
from deltaic.storage.aws_credentials import make_client


def invoke(arn: str, region: str, event: bytes) -> None:
    """Invoke a function with a JSON event, without waiting; raises Unavailable if AWS does not accept the event.

    Few requests invoke functions, so botocore is used here although it loads slowly.
    """
    try:
        client = make_client("lambda", region, botocore_config(CONTROL))
        client.invoke(FunctionName=arn, InvocationType="Event", Payload=event)
    except Exception as error:
        detail = f"cannot invoke {arn}: {type(error).__name__}: {error}"
        raise Unavailable("the server cannot start generating metadata now; try again", detail) from error
