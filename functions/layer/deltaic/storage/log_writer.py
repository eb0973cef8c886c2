"""Writes into a table's log what is no commit: new objects under the condition that there are none, and hints."""

from collections.abc import Callable
from typing import Any

from deltaic.errors import TableUnreadable, Unavailable
from deltaic.storage.aws_credentials import Credentials, default_credentials
from deltaic.storage.connections import connection
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.object_store_errors import failure


class LogWriter:
    """The log of one table, for the one function that may add to it. Each call is one request; nothing is deleted.

    Raises TableUnreadable where writing is refused, Unavailable and TooManyRequests for what passes.
    """

    def __init__(
        self,
        locations: TableLocations,
        storage: StorageConfig,
        credentials: Callable[[], Credentials] = default_credentials,
    ) -> None:
        self._locations = locations
        self._storage = storage
        self._credentials = credentials

    def create(self, path: str, content: bytes) -> bool:
        """Write an object that is not there yet; False if one is, which then stays as it is."""
        from obstore.exceptions import AlreadyExistsError

        try:
            self._put(path, content, "create")
        except AlreadyExistsError:
            return False
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write an object, whether it is there or not."""
        self._put(path, content, "overwrite")

    def _put(self, path: str, content: bytes, mode: Any) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, UnauthenticatedError

        name = self._locations.object_name(path)
        self._credentials()  # asked here too, because what obstore makes of its failure has no class
        store = connection(name.bucket, self._storage, self._credentials)
        try:
            obstore.put(store, name.key, content, mode=mode, use_multipart=False)
        except AlreadyExistsError:
            raise
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise TableUnreadable(
                "the server may not write to the log of this table: its provider must let it",
                f"s3://{name.bucket}/{name.key}: the bucket's policy, or the role or the keys of the table's storage",
            ) from error
        except Exception as error:
            meant = failure(error, name, self._storage.region)
            if isinstance(meant, FileNotFoundError):
                meant = Unavailable("the storage failed; try again")
            raise meant from error
