"""Read settings for access to S3 from AWS environment variables, for Spark and deltalake."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Access:
    """Endpoint, region and access keys for S3; without keys, Hadoop finds them (variables, instance role)."""

    endpoint: str | None = None
    region: str = DEFAULT_REGION
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read the usual AWS environment variables: AWS_ENDPOINT_URL(_S3), region, keys or profile."""
        variables = os.environ if environment is None else environment
        region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION")
        keys = tuple(variables.get(f"AWS_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"))
        if not keys[0]:
            # botocore reads profiles, SSO and web identity, which Hadoop does not support.
            import botocore.session

            session = botocore.session.Session(profile=variables.get("AWS_PROFILE"))
            credentials = session.get_credentials()
            region = region or session.get_config_variable("region")
            if credentials is not None:
                frozen = credentials.get_frozen_credentials()
                keys = (frozen.access_key, frozen.secret_key, frozen.token)
        return cls(
            endpoint=variables.get("AWS_ENDPOINT_URL_S3") or variables.get("AWS_ENDPOINT_URL") or None,
            region=region or DEFAULT_REGION,
            access_key_id=keys[0] or None,
            secret_access_key=keys[1] or None,
            session_token=keys[2] or None,
        )

    def deltalake(self) -> dict[str, str]:
        """Return `storage_options` for the library deltalake, which reads and writes small tables without Spark."""
        options = {
            "AWS_REGION": self.region,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_SESSION_TOKEN": self.session_token,
            "AWS_ALLOW_HTTP": "true" if (self.endpoint or "").startswith("http://") else None,
        }
        return {name: value for name, value in options.items() if value}

    def hadoop(self) -> dict[str, str]:
        """Return the `fs.s3a.*` settings for Spark's S3 client.

        They never include `fs.s3a.create.performance` (a second writer of a version would overwrite the first without
        an error) and `delta.enableFastS3AListFrom` (VACUUM would delete the table's log).
        """
        settings = {"fs.s3a.endpoint.region": self.region}
        if self.endpoint:
            # Other stores than AWS have no wildcard host names, so the bucket goes into the path.
            settings |= {"fs.s3a.endpoint": self.endpoint, "fs.s3a.path.style.access": "true"}
        if self.access_key_id and self.secret_access_key:
            settings |= {"fs.s3a.access.key": self.access_key_id, "fs.s3a.secret.key": self.secret_access_key}
            if self.session_token:
                settings["fs.s3a.session.token"] = self.session_token
        return settings
