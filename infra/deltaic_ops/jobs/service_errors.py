"""What a refusal of the services around jobs is called: the catalog's words for AWS's errors, and two more."""

from collections.abc import Iterator
from contextlib import contextmanager

from deltaic.catalog.aws_errors import refused
from deltaic.errors import Conflict, NotFound

MISSING = frozenset({"ResourceNotFoundException", "NoSuchBucket", "404"})


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Run a block that asks AWS; raises a DeltaicError, which names what was asked for if AWS does not know it."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in MISSING:
            raise NotFound(
                f"{what} does not exist here: see `deltaic pipeline list`, and that --stack is right"
            ) from None
        if code == "ConflictException":
            raise Conflict(f"{what} is being changed by somebody else: try again in a moment") from None
        raise refused(error) from error
    except Exception as error:
        raise refused(error) from error
