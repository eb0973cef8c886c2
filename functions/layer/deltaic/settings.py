"""The settings of a process, out of its environment: one frozen value, read once; nothing else reads `os.environ`.

A struct and not a pydantic model: ten values are checked in a few lines, and a model would be the only reason for
which a listing function imports pydantic before its first item.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from deltaic.platform_limits import FREE_BURST_BYTES, STREAMED_BYTES

_Switch: TypeAlias = Literal["enabled", "disabled"]
_OnFailure: TypeAlias = Literal["open", "closed"]
_TTL_SECONDS = range(60, 604_801)
"""From a minute to what S3 allows at most."""
_LEAST_LIMIT = 4_000_000
"""Bytes below which an answer could not be ended in time: a chunk is about one million."""
_LEAST_PAGE = 10_000
"""Bytes below which a page would be all head and end."""


_VARIABLES: Final = {
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "memory_mb": "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
}
"""The variables of AWS's own; all others are named as the fields are."""


class Settings(msgspec.Struct, frozen=True):
    """What a function is told by its environment (template.yaml, Globals.Function.Environment)."""

    catalog_table: str = "deltaic-catalog"
    tokens_table: str = "deltaic-tokens"
    token_key_secret: str = "deltaic/token-key"  # noqa: S105 -- a secret's name
    """Secrets Manager name or ARN of the HMAC key that signs page, refresh and list tokens."""

    signing_role_arn: str = ""
    """The read-only role that is assumed per recipient to sign URLs; empty: sign as the function itself."""

    ip_address_type: str = "ipv4"
    """`dualstack` where signed URLs name hosts of S3 that IPv6 reaches too."""

    url_ttl_seconds: int = 3600
    response_streaming: _Switch = "disabled"
    stream_limit_bytes: int = STREAMED_BYTES
    """The most bytes of a streamed answer, as it leaves: Lambda ends it at 200 MB; 0 where nothing does."""

    server_pages: _Switch = "enabled"
    """Whether clients that are known to follow get pages that they did not ask for (decision 92)."""
    page_bytes: int = FREE_BURST_BYTES - FREE_BURST_BYTES // 20
    """The most bytes of such a page, as it leaves: what Lambda sends at once, less a margin; 0: no such pages."""

    unread_statistics: _Switch = "disabled"
    """Whether clients that are known never to read the statistics of files are sent them."""

    contact: str = ""
    """Whom a recipient asks, as pages name it: a name, an address."""

    explore: _Switch = "disabled"
    """Whether the endpoint has the page that shows tables in the browser."""

    iceberg_bucket: str = ""
    """The bucket of the metadata that is made for Iceberg's clients; empty: they are not served."""

    iceberg_files_at_once: int = 400_000
    """How many files are listed for them while they wait; of more the metadata is made in the background."""

    iceberg_maker: str = ""
    """The function that makes it then: the ARN of its alias."""

    cors_origins: str = ""
    """The origins of web pages that may ask, between commas, or `*`."""

    limits_on_failure: _OnFailure = "open"
    """Whether a recipient with limits is answered while its requests cannot be counted."""

    prefix: str = "delta-sharing"
    """The last part of the endpoint."""

    oauth_key: str = ""
    """The key of KMS that signs JWTs of ours; empty: there are none."""

    token_minutes: int = 30
    """How long such a JWT lives."""

    notice_days: int = 0
    """How many days before its end something is told of."""

    notices_bus: str = "default"
    """The bus of EventBridge that notices are put on."""

    notices_source: str = "deltaic"
    """Who is named there as their source."""

    region: str = "us-east-1"
    endpoint_url: str = ""
    """Where AWS is, if not AWS itself: the embedded AWS, LocalStack. Empty on AWS."""

    memory_mb: int = 1769
    """What the process may use; Lambda tells it, elsewhere it is as if the function ran on one whole processor."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Settings":
        """Read the variables; raises ValueError, naming the variable, for a value that cannot be used."""
        given = {}
        for field, default in zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True):
            name = _VARIABLES.get(field, field.upper())
            if name in environment:
                given[field] = _value(name, environment[name], cls.__annotations__[field], default)
        settings = cls(**given)
        ttl, limit, page_bytes = settings.url_ttl_seconds, settings.stream_limit_bytes, settings.page_bytes
        if ttl not in _TTL_SECONDS:
            raise ValueError(f"URL_TTL_SECONDS is {ttl}: say {_TTL_SECONDS.start} to {_TTL_SECONDS.stop - 1}")
        if limit and limit < _LEAST_LIMIT:
            raise ValueError(f"STREAM_LIMIT_BYTES is {limit}: say 0 for none, or at least {_LEAST_LIMIT}")
        if page_bytes and page_bytes < _LEAST_PAGE:
            raise ValueError(f"PAGE_BYTES is {page_bytes}: say 0 for no pages, or at least {_LEAST_PAGE}")
        return settings

    @property
    def url_ttl(self) -> timedelta:
        """How long a signed URL shall live."""
        return timedelta(seconds=self.url_ttl_seconds)


def _value(name: str, text: str, kind: Any, default: Any) -> Any:
    """Return the value of a variable: a text, a whole number (an empty one is not set), or one of a few words."""
    if choices := get_args(kind):
        if text not in choices:
            raise ValueError(f"{name} is {text!r}: say {' or '.join(choices)}")
        return text
    if kind is str:
        return text
    try:
        return int(text) if text else default
    except ValueError:
        raise ValueError(f"{name} is {text!r}: say a whole number") from None


@cache
def settings() -> Settings:
    """Return the settings of this process; a value that cannot be used is a ValueError at start-up."""
    return Settings.read(os.environ)
