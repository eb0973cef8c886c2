"""The address of a storage: its scheme, host and path, for AWS S3 and for S3-compatible stores."""

import re
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from deltaic.settings import settings
from deltaic.storage.locations import access_point
from deltaic.urls import DEFAULT_PORTS, parse_endpoint

# A bucket that can be the first label of a host (Amazon S3 User Guide, "Virtual hosting of buckets").
_HOST_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{1,61})[a-z0-9]")
_HOST_LABELS = re.compile(r"[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]")
AWS = "amazonaws.com"
"""The name of AWS S3 as a store (`store_name`)."""

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
"""By how a region's name begins: what ARNs call it, and what host names there end in."""


class StorageConfig(msgspec.Struct, frozen=True):
    """One storage: AWS S3 in a region, or an S3-compatible store at an endpoint, and who reads it."""

    region: str = "us-east-1"
    endpoint: str = ""
    """Where this server reaches the store; empty: AWS S3 of the region."""
    public_endpoint: str = ""
    """Where recipients reach it, if that differs; signed URLs name it."""
    path_style: bool = False
    """True: the bucket stands in the path. False: in the host, where bucket and endpoint allow it."""
    role_arn: str = ""
    """A role to assume for reading and signing; empty: the function's own, or the keys of `secret`."""
    secret: str = ""
    """Secrets Manager name or ARN of `{"accessKeyId", "secretAccessKey"}`; empty: no static keys."""


class Origin(NamedTuple):
    """Where a bucket answers."""

    scheme: str
    host: str
    """Host as it is signed and sent: with the port unless it is the scheme's own."""
    authority: str
    """Host as it stands in URLs: with any port that the endpoint names."""
    path: str
    """Encoded path of the bucket's root, ending in a slash."""

    @property
    def url(self) -> str:
        """The bucket's root, ending in a slash."""
        return f"{self.scheme}://{self.authority}{self.path}"


def origin(storage: StorageConfig, bucket: str, *, public: bool = True) -> Origin:
    """Return where `bucket` answers for recipients (`public`) or for this server.

    The bucket stands in the host unless path style is asked for, the name cannot be a host label, the endpoint is an
    IP address, or (under TLS) the name has dots, which no wildcard certificate covers. AWS hosts are always regional.
    An access point is AWS's own, whatever the storage's endpoint.
    Raises InvalidParameter for an endpoint that is not an http or https URL.
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
    """Return one name for a store, however its endpoint is spelled: by it stores are compared, not reached.

    AWS S3 is one store, this machine one host, and the ports of http and https make no difference.
    """
    from ipaddress import ip_address  # no recipient's request needs it
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
    """Tell whether an endpoint is AWS's own, such as a VPC endpoint: AWS credentials may then be shown to it."""
    host = (urlsplit(endpoint).hostname or "").rstrip(".")
    return any(host.endswith(f".{suffix}") for suffix in (AWS, *(suffix for _, suffix in _PARTITIONS.values())))


def dns_suffix(region: str) -> str:
    """Return what the host names of AWS's services end in."""
    return _partition(region)[1]


def arn_partition(region: str) -> str:
    """Return the partition that a region's ARNs name."""
    return _partition(region)[0]


def _partition(region: str) -> tuple[str, str]:
    return next((found for beginning, found in _PARTITIONS.items() if region.startswith(beginning)), ("aws", AWS))
