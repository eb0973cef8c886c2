"""What is known of buckets: which the stack itself made, and which of them an access point stands for."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from deltaic.storage.locations import AccessPoint, Location, access_point


class Buckets(NamedTuple):
    """Answers about buckets; by default nothing is known."""

    own: Callable[[], Collection[str]] = tuple
    """Returns the names of the stack's own buckets, of which nothing may be shared."""

    behind: Callable[[AccessPoint], str] = lambda _: ""
    """Returns the bucket of an access point; empty where it is unknown."""

    def resolve(self, place: Location) -> Location:
        """Return a location by the bucket behind its access point, where that is known."""
        point = access_point(place.bucket)
        return place if point is None else Location(self.behind(point) or place.bucket, place.prefix)

    def is_unknown(self, place: Location) -> bool:
        """Return whether the bucket behind a location's access point, or behind its alias, is unknown."""
        return place.bucket.endswith("-s3alias") or access_point(self.resolve(place).bucket) is not None
