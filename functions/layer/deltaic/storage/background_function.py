"""A function that is invoked and not waited for."""

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import CONTROL, botocore_config
from deltaic.storage.aws_credentials import make_client


def invoke(arn: str, region: str, event: bytes) -> None:
    """Have a function run with an event, in JSON; raises Unavailable where AWS does not take it.

    By botocore, which takes a while to load and knows this service: few requests invoke anything.
    """
    try:
        client = make_client("lambda", region, botocore_config(CONTROL))
        client.invoke(FunctionName=arn, InvocationType="Event", Payload=event)
    except Exception as error:
        told = f"cannot invoke {arn}: {type(error).__name__}: {error}"
        raise Unavailable("the server cannot make what you ask for at the moment; try again", told) from error
