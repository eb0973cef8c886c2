"""Find out which S3 buckets belong to the stack, and which bucket an S3 access point belongs to."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from deltaic.storage.locations import AccessPoint, Location, access_point


class Buckets(NamedTuple):
    """Functions that look up S3 buckets; by default they know no bucket."""

    stack_buckets: Callable[[], Collection[str]] = tuple
    """Return the names of the stack's buckets, which cannot be shared."""

    bucket_of: Callable[[AccessPoint], str] = lambda _: ""
    """Return the bucket of an access point, or an empty string if it is unknown."""

    def resolve(self, location: Location) -> Location:
        """Return the location with its access point replaced by the bucket, if known."""
        point = access_point(location.bucket)
        return location if point is None else Location(self.bucket_of(point) or location.bucket, location.prefix)

    def is_unknown(self, location: Location) -> bool:
        """Return whether a location names an access point or alias whose bucket is unknown."""
        return location.bucket.endswith("-s3alias") or access_point(self.resolve(location).bucket) is not None
