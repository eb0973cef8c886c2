"""What is known of buckets beyond their names: which are the stack's own, and which an access point stands for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from deltaic.storage.locations import AccessPoint, Location, access_point

_ALIAS = "-s3alias"
"""How the name ends by which S3 accepts an access point in a bucket's place."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Answers about buckets; by default nothing is known."""

    own: Callable[[], Collection[str]] = tuple
    """Returns the names of the buckets that the stack itself made, whose objects nobody may share."""

    behind: Callable[[AccessPoint], str] = lambda _point: ""
    """Returns the bucket of an access point; empty where it is unknown."""

    def resolve(self, place: Location) -> Location:
        """Return a location with the bucket in the place of its access point, where the bucket is known."""
        point = access_point(place.bucket)
        return place if point is None else Location(self.behind(point) or place.bucket, place.prefix)

    def is_unknown(self, place: Location) -> bool:
        """Return whether a location's bucket is unknown, so that nobody can compare it with others."""
        return access_point(self.resolve(place).bucket) is not None or place.bucket.endswith(_ALIAS)
