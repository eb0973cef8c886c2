"""Facts about buckets that are not in the catalog: the stack's own buckets, and the bucket of an access point."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from deltaic.storage.locations import AccessPoint, Location, access_point


class Buckets(NamedTuple):
    """Looks up facts about buckets; by default none is known."""

    stack_buckets: Callable[[], Collection[str]] = tuple
    """Returns the names of the stack's own buckets, which cannot be shared."""

    bucket_of: Callable[[AccessPoint], str] = lambda _: ""
    """Returns the bucket of an access point, or an empty string if it is unknown."""

    def resolve(self, place: Location) -> Location:
        """Return a location with its access point replaced by the bucket, if that is known."""
        point = access_point(place.bucket)
        return place if point is None else Location(self.bucket_of(point) or place.bucket, place.prefix)

    def is_unknown(self, place: Location) -> bool:
        """Return whether the bucket behind a location's access point, or behind its alias, is unknown."""
        return place.bucket.endswith("-s3alias") or access_point(self.resolve(place).bucket) is not None
