"""The URLs of the files that a table's log names, whichever of the table's locations it lies in."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.signing import UrlSigner

if TYPE_CHECKING:
    import pyarrow as pa


class TableUrls:
    """Signs the files of one table for one answer: all URLs end at `expires_at_ms`.

    The fast way is `relative` (which may be kept with a snapshot: it depends on no credentials) and then the
    `signer`'s `lines`; `url` serves any single path.
    """

    def __init__(
        self,
        locations: TableLocations,
        storage: StorageConfig,
        credentials: Credentials,
        *,
        ttl: timedelta,
        now: datetime | None = None,
    ) -> None:
        """Prepare to sign for this moment; raises Unavailable for expired credentials."""
        self._locations = locations
        self._storage = storage
        self._credentials = credentials
        self._ttl = ttl
        self._now = now or datetime.now(UTC)
        self._elsewhere: dict[str, UrlSigner] = {}
        self.signer = self._signer(locations.root)
        """Signs what lies below the table's root."""
        self.expires_at_ms = self.signer.expires_at_ms

    def url(self, path: str) -> str:
        """Return the URL of a raw `path` of the log; raises as `TableLocations.resolve` does."""
        encoded = self._locations.encoded(path)
        if encoded is not None:
            return self.signer.signed(encoded).decode()
        name = self._locations.resolve(path)
        signer = self._elsewhere.get(name.bucket)
        if signer is None:
            signer = self._elsewhere[name.bucket] = self._signer(Location(name.bucket, ""))
        return signer.url(name.key)

    def relative(self, paths: "pa.StringArray") -> list[bytes] | None:
        """Return a `pa.StringArray` of raw paths ready for the `signer`, or None: then take `url` for each."""
        return self._locations.relative(paths)

    def _signer(self, location: Location) -> UrlSigner:
        return UrlSigner(self._credentials, self._storage, location, ttl=self._ttl, now=self._now)
