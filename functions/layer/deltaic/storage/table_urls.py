"""Sign URLs for the files that a table's Delta log names, in all locations of the table."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from deltaic.storage.aws_credentials import Credentials
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import Location, TableLocations
from deltaic.storage.signing import UrlSigner

if TYPE_CHECKING:
    import pyarrow as pa


class TableUrls:
    """URL signer for the files of one table in one response; all URLs expire at `expires_at_ms`.

    For many files, use `relative` (whose result can be cached, because it does not depend on credentials) and then
    `signer.lines`. For a single path, use `url`.
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
        """Create a signer of URLs that are valid from now on; raises Unavailable for expired credentials."""
        self._locations = locations
        self._storage = storage
        self._credentials = credentials
        self._ttl = ttl
        self._now = now or datetime.now(UTC)
        self._other_signers: dict[str, UrlSigner] = {}
        self.signer = self._signer(locations.root)
        """Signer of URLs for files in the table's root location."""
        self.expires_at_ms = self.signer.expires_at_ms

    def url(self, path: str) -> str:
        """Return the signed URL of a path as in the Delta log; raises the errors of `TableLocations.resolve`."""
        encoded = self._locations.encoded(path)
        if encoded is not None:
            return self.signer.sign_path(encoded).decode()
        name = self._locations.resolve(path)
        signer = self._other_signers.get(name.bucket)
        if signer is None:
            signer = self._other_signers[name.bucket] = self._signer(Location(name.bucket, ""))
        return signer.url(name.key)

    def relative(self, paths: "pa.StringArray") -> list[bytes] | None:
        """Convert paths in the Delta log to paths for `signer.lines`; None if the caller must use `url` for each."""
        return self._locations.relative(paths)

    def _signer(self, location: Location) -> UrlSigner:
        return UrlSigner(self._credentials, self._storage, location, ttl=self._ttl, now=self._now)
