"""Determine the URLs of buckets (scheme, host and path) in AWS S3 and S3-compatible stores."""

import re
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from deltaic.settings import settings
from deltaic.storage.locations import access_point
from deltaic.urls import DEFAULT_PORTS, parse_endpoint

# Bucket names that can be the first label of a host (Amazon S3 User Guide, "Virtual hosting of buckets").
_HOST_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{1,61})[a-z0-9]")
_HOST_LABELS = re.compile(r"[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]")
AWS = "amazonaws.com"
"""Name of AWS S3 as returned by `store_name`."""

_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_PARTITIONS = {
    "cn-": ("aws-cn", "amazonaws.com.cn"),
    "eusc-": ("aws-eusc", "amazonaws.eu"),
    "us-gov-": ("aws-us-gov", AWS),
    "us-iso-": ("aws-iso", "c2s.ic.gov"),
    "us-isob-": ("aws-iso-b", "sc2s.sgov.gov"),
    "eu-isoe-": ("aws-iso-e", "cloud.adc-e.uk"),
    "us-isof-": ("aws-iso-f", "csp.hci.ic.gov"),
}
"""AWS partition (as in ARNs) and DNS suffix, by the prefix of a region's name."""


class StorageConfig(msgspec.Struct, frozen=True):
    """Configuration of a storage: AWS S3 in a region or an S3-compatible store, and its credentials."""

    region: str = "us-east-1"
    endpoint: str = ""
    """Endpoint URL that this server uses; empty for AWS S3 in the region."""
    public_endpoint: str = ""
    """Endpoint in URLs for recipients, if it differs from `endpoint`."""
    path_style: bool = False
    """Whether URLs have the bucket in the path. Otherwise it is in the host name, if bucket and endpoint allow it."""
    role_arn: str = ""
    """ARN of the role that reads and signs; if empty, the role of the Lambda function or the keys in `secret`."""
    secret: str = ""
    """Name or ARN of a secret in Secrets Manager with `{"accessKeyId", "secretAccessKey"}`; empty for none."""


class Origin(NamedTuple):
    """Start of all URLs of a bucket."""

    scheme: str
    host: str
    """Host for the signature and the Host header, without the default port of the scheme."""
    authority: str
    """Host as written in URLs, with the port if the endpoint has one."""
    path: str
    """Percent-encoded path of the bucket's root, ending in a slash."""

    @property
    def url(self) -> str:
        """URL of the bucket's root, ending in a slash."""
        return f"{self.scheme}://{self.authority}{self.path}"


def origin(storage: StorageConfig, bucket: str, *, public: bool = True) -> Origin:
    """Return the start of a bucket's URLs, for recipients (`public`) or for this server.

    The bucket is in the host, except with path style, a name that cannot be a host label, an IP address as endpoint, or
    (with TLS) a name with dots, which wildcard certificates do not cover. AWS hosts are always regional. Access points
    always use AWS, even if the storage has an endpoint. Raises InvalidParameter for an endpoint that is not an http or
    https URL.
    """
    endpoint = (storage.public_endpoint if public else "") or storage.endpoint
    point = access_point(bucket)
    dual = "dualstack." if public and settings().ip_address_type == "dualstack" else ""
    if point is not None:
        host = f"{point.name}-{point.account}.s3-accesspoint.{dual}{point.region}.{dns_suffix(point.region)}"
        return Origin("https", host, host, "/")
    if not endpoint:
        endpoint = f"https://s3.{dual}{storage.region}.{dns_suffix(storage.region)}"
    parts = parse_endpoint(endpoint)
    netloc = parts.netloc.rpartition("@")[2]
    root = parts.path.rstrip("/")
    in_host = (
        not storage.path_style
        and not _IPV4.fullmatch(parts.hostname or "")
        and ":" not in (parts.hostname or "")
        and (_HOST_LABEL if parts.scheme == "https" else _HOST_LABELS).fullmatch(bucket) is not None
    )
    authority = f"{bucket}.{netloc}" if in_host else netloc
    host = authority
    if parts.port == DEFAULT_PORTS[parts.scheme]:
        host = authority.rpartition(":")[0]
    return Origin(parts.scheme, host.lower(), authority, f"{root}/" if in_host else f"{root}/{bucket}/")


def store_name(endpoint: str) -> str:
    """Return a canonical name of a store, to recognize different endpoint URLs of the same store.

    All endpoints of AWS S3 have one name, so do all names of this machine; default ports are omitted.
    """
    from ipaddress import ip_address  # imported here, because requests of recipients do not need it
    from socket import inet_aton, inet_ntoa

    if not endpoint or is_aws(endpoint):
        return AWS
    parts = parse_endpoint(endpoint)
    host = (parts.hostname or "").rstrip(".")
    with suppress(ValueError, OSError):  # a name, not an address; inet_aton reads 127.1, as clients do
        address = ip_address(host if ":" in host else inet_ntoa(inet_aton(host)))
        address = getattr(address, "ipv4_mapped", None) or address
        host = "localhost" if address.is_loopback or address.is_unspecified else str(address)
    host = "localhost" if host.endswith(".localhost") else host
    return host if parts.port in {None, DEFAULT_PORTS[parts.scheme]} else f"{host}:{parts.port}"


def is_aws(endpoint: str) -> bool:
    """Return whether an endpoint (such as a VPC endpoint) belongs to AWS, and so may get AWS credentials."""
    host = (urlsplit(endpoint).hostname or "").rstrip(".")
    return any(host.endswith(f".{suffix}") for suffix in (AWS, *(suffix for _, suffix in _PARTITIONS.values())))


def dns_suffix(region: str) -> str:
    """Return the suffix of AWS host names in a region."""
    return _partition(region)[1]


def arn_partition(region: str) -> str:
    """Return the AWS partition of a region, such as `aws` or `aws-cn`, as in ARNs."""
    return _partition(region)[0]


def _partition(region: str) -> tuple[str, str]:
    return next((partition for prefix, partition in _PARTITIONS.items() if region.startswith(prefix)), ("aws", AWS))
