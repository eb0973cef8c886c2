"""Read and extend the CORS rules of a bucket, so that the page /explore can read its objects."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from deltaic.urls import parse_endpoint

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RULE_ID = "deltaic-explore"
NO_RULES = "NoSuchCORSConfiguration"
MAX_AGE_SECONDS = 3600


def origin_of(endpoint: str) -> str:
    """Return the origin of an endpoint's web pages, as browsers send it; raises InvalidParameter if it is not a URL."""
    parse_endpoint(endpoint)
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}".lower()


def rules_of(s3: "S3Client", bucket: str) -> list[dict[str, Any]]:
    """Return the bucket's CORS rules; raises botocore's ClientError."""
    from botocore.exceptions import ClientError

    try:
        return [dict(rule) for rule in s3.get_bucket_cors(Bucket=bucket)["CORSRules"]]
    except ClientError as error:
        if error.response["Error"]["Code"] == NO_RULES:
            return []
        raise


def allows_origin(rules: Sequence[dict[str, Any]], origin: str) -> bool:
    """Return whether the CORS rules allow pages of an origin to GET parts of objects."""
    return any(
        "GET" in rule["AllowedMethods"]
        and any(fnmatchcase(origin, allowed) for allowed in rule["AllowedOrigins"])
        and any(fnmatchcase("range", allowed.lower()) for allowed in rule.get("AllowedHeaders", ()))
        for rule in rules
    )


def allow_origins(s3: "S3Client", bucket: str, origins: Sequence[str]) -> list[dict[str, Any]]:
    """Allow pages of these origins to GET parts of a bucket's objects, and return all CORS rules.

    Existing rules and origins are kept. Raises botocore's ClientError.
    """
    rules = rules_of(s3, bucket)
    missing = [origin for origin in origins if not allows_origin(rules, origin)]
    if not missing:
        return rules
    existing = [origin for rule in rules if rule.get("ID") == RULE_ID for origin in rule["AllowedOrigins"]]
    rule = {
        "ID": RULE_ID,
        "AllowedOrigins": [*existing, *missing],
        "AllowedMethods": ["GET"],
        "AllowedHeaders": ["range"],
        "ExposeHeaders": ["content-range"],
        "MaxAgeSeconds": MAX_AGE_SECONDS,
    }
    updated: list[Any] = [*(rule for rule in rules if rule.get("ID") != RULE_ID), rule]
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": updated})
    return updated
