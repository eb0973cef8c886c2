"""Settings of a process, read once from its environment; no other module reads `os.environ`.

The settings are a struct and not a pydantic model, because the import of pydantic would slow down cold starts.
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
"""Permitted lifetimes of signed URLs: one minute to seven days, the maximum of S3."""
_MIN_LIMIT = 4_000_000
"""Minimum of `stream_limit_bytes`: a response is sent in chunks of about 1 MB and must end before the limit."""
_MIN_PAGE = 10_000
"""Minimum of `page_bytes`: a smaller page would contain only its first and last lines."""


_VARIABLES: Final = {
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "memory_mb": "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
}
"""Settings in variables that AWS defines; the variable of any other setting is its name in upper case."""


class Settings(msgspec.Struct, frozen=True):
    """Settings of a function from its environment variables (template.yaml, Globals.Function.Environment)."""

    catalog_table: str = "deltaic-catalog"
    tokens_table: str = "deltaic-tokens"
    token_key_secret: str = "deltaic/token-key"  # noqa: S105 -- a secret's name
    """Name or ARN in Secrets Manager of the HMAC key that signs page, refresh and list tokens."""

    signing_role_arn: str = ""
    """Read-only role that signs URLs, assumed once per recipient; if empty, the function's own role signs."""

    ip_address_type: str = "ipv4"
    """`dualstack` if signed URLs use S3 hosts that also support IPv6."""

    url_ttl_seconds: int = 3600
    response_streaming: _Switch = "disabled"
    stream_limit_bytes: int = STREAMED_BYTES
    """Maximum bytes of a streamed response as sent: Lambda truncates it at 200 MB. 0 means no limit."""

    server_pages: _Switch = "enabled"
    """Whether clients that are known to follow `nextPageToken` get pages without requesting them (decision 92)."""
    page_bytes: int = FREE_BURST_BYTES - FREE_BURST_BYTES // 20
    """Maximum bytes, as sent, of a page due to `server_pages`: what Lambda sends at full speed, less 5%; 0: none."""

    unread_statistics: _Switch = "disabled"
    """Whether file statistics are sent to clients that never read them."""

    contact: str = ""
    """Contact for recipients, shown on pages: a name or an address."""

    explore: _Switch = "disabled"
    """Whether the endpoint has the page that shows tables in the browser."""

    iceberg_bucket: str = ""
    """Bucket for Iceberg metadata; if empty, Iceberg clients are not served."""

    iceberg_files_at_once: int = 400_000
    """Maximum files of a table whose Iceberg metadata is written during the request; above, in the background."""

    iceberg_maker: str = ""
    """ARN of the alias of the function that writes Iceberg metadata in the background."""

    cors_origins: str = ""
    """Comma-separated origins of web pages that may call the server, or `*`."""

    limits_on_failure: _OnFailure = "open"
    """Whether recipients with limits are served (`open`) or not (`closed`) if their requests cannot be counted."""

    prefix: str = "delta-sharing"
    """Last segment of the endpoint's path."""

    oauth_key: str = ""
    """KMS key that signs this server's JWTs; if empty, it issues none."""

    token_minutes: int = 30
    """Lifetime in minutes of a JWT that this server signs."""

    notice_days: int = 0
    """Days before the expiry of a token or grant at which a notice is sent."""

    notices_bus: str = "default"
    notices_source: str = "deltaic"
    """Field `source` of the EventBridge events that carry notices."""

    region: str = "us-east-1"
    endpoint_url: str = ""
    """AWS endpoint of the local server or of LocalStack; empty on AWS."""

    memory_mb: int = 1769
    """Memory of the function in MB, which Lambda sets; at the default, Lambda provides one full CPU."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Settings":
        """Parse settings from environment variables; raises ValueError with the name of an invalid variable."""
        values = {}
        for field, default in zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True):
            name = _VARIABLES.get(field, field.upper())
            if name in environment:
                values[field] = _parse_value(name, environment[name], cls.__annotations__[field], default)
        settings = cls(**values)
        ttl, limit, page_bytes = settings.url_ttl_seconds, settings.stream_limit_bytes, settings.page_bytes
        if ttl not in _TTL_SECONDS:
            raise ValueError(f"URL_TTL_SECONDS is {ttl}: set {_TTL_SECONDS.start} to {_TTL_SECONDS.stop - 1}")
        if limit and limit < _MIN_LIMIT:
            raise ValueError(f"STREAM_LIMIT_BYTES is {limit}: set 0 for no limit, or at least {_MIN_LIMIT}")
        if page_bytes and page_bytes < _MIN_PAGE:
            raise ValueError(f"PAGE_BYTES is {page_bytes}: set 0 for no pages, or at least {_MIN_PAGE}")
        return settings

    @property
    def url_ttl(self) -> timedelta:
        """Lifetime of a signed URL."""
        return timedelta(seconds=self.url_ttl_seconds)


def _parse_value(name: str, text: str, kind: Any, default: Any) -> Any:
    """Parse an environment variable by its setting's type: a string, an integer, or one of the permitted words."""
    if choices := get_args(kind):
        if text not in choices:
            raise ValueError(f"{name} is {text!r}: set {' or '.join(choices)}")
        return text
    if kind is str:
        return text
    try:
        return int(text) if text else default
    except ValueError:
        raise ValueError(f"{name} is {text!r}: set an integer") from None


@cache
def settings() -> Settings:
    """Return the settings of this process; raises ValueError for an invalid variable."""
    return Settings.read(os.environ)
