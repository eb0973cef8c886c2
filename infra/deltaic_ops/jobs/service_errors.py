"""Translate errors of the AWS services that run jobs into the exceptions of the `deltaic` package."""

from collections.abc import Iterator
from contextlib import contextmanager

from deltaic.catalog.aws_errors import to_operator_error
from deltaic.errors import Conflict, NotFound

MISSING = frozenset({"ResourceNotFoundException", "NoSuchBucket", "404"})


@contextmanager
def translate_errors(resource: str) -> Iterator[None]:
    """Translate errors of AWS in a block to a DeltaicError, which names `resource` if it does not exist."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in MISSING:
            message = f"{resource} does not exist in this stack: check --stack and `deltaic pipeline list`"
            raise NotFound(message) from None
        if code == "ConflictException":
            raise Conflict(f"another process is changing {resource}: try again in a minute") from None
        raise to_operator_error(error) from error
    except Exception as error:
        raise to_operator_error(error) from error
