"""A function that is invoked and not waited for."""

from deltaic.errors import Unavailable
from deltaic.storage.aws_credentials import make_client


def invoke(arn: str, region: str, event: bytes) -> None:
    """Have a function run with an event, in JSON; raises Unavailable where AWS does not take it.

    By botocore, which takes a while to load and knows this service: few requests invoke anything.
    """
    from botocore.config import Config

    config = Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
    try:
        client = make_client("lambda", region, config)
        client.invoke(FunctionName=arn, InvocationType="Event", Payload=event)
    except Exception as error:
        told = f"cannot invoke {arn}: {type(error).__name__}: {error}"
        raise Unavailable("the server cannot make what you ask for at the moment; try again", told) from error
