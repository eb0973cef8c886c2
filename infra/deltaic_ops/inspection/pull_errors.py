"""Convert errors of the package delta_sharing_pull to DeltaicError, with the same code and message."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from delta_sharing_pull.errors import PullError
from deltaic.errors import DeltaicError

_BY_CODE: Final = {kind.code: kind for kind in DeltaicError.__subclasses__()}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise the DeltaicError that corresponds to a PullError raised in the `with` block."""
    try:
        yield
    except PullError as error:
        raise _BY_CODE[error.code](str(error)) from None
