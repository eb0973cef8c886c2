"""Decides what the environment says: one frozen value, read once; nothing else reads `os.environ`."""

import os
from datetime import timedelta
from functools import cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """What a function is told by its environment (template.yaml, Globals.Function.Environment)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    catalog_table: str = Field(alias="CATALOG_TABLE", default="deltaic-catalog")
    tokens_table: str = Field(alias="TOKENS_TABLE", default="deltaic-tokens")
    token_key_secret: str = Field(alias="TOKEN_KEY_SECRET", default="deltaic/token-key")
    """Secrets Manager name or ARN of the HMAC key that signs page, refresh and list tokens."""

    signing_role_arn: str = Field(alias="SIGNING_ROLE_ARN", default="")
    """The read-only role that is assumed per recipient to sign URLs; empty: sign as the function itself."""

    url_ttl_seconds: Annotated[int, Field(ge=60, le=604_800)] = Field(alias="URL_TTL_SECONDS", default=3600)
    response_streaming: Literal["enabled", "disabled"] = Field(alias="RESPONSE_STREAMING", default="disabled")
    region: str = Field(alias="AWS_REGION", default="us-east-1")
    endpoint_url: str = Field(alias="AWS_ENDPOINT_URL", default="")
    """Where AWS is, if not AWS itself: the embedded AWS, LocalStack. Empty on AWS."""

    @property
    def url_ttl(self) -> timedelta:
        """How long a signed URL shall live."""
        return timedelta(seconds=self.url_ttl_seconds)


@cache
def settings() -> Settings:
    """Return the settings of this process; a value that cannot be used raises pydantic's error at start-up."""
    return Settings.model_validate(dict(os.environ))
