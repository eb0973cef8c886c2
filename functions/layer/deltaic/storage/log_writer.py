"""Write objects other than commits into a table's Delta log, such as checkpoints and `_last_checkpoint`."""

from collections.abc import Callable
from typing import Any

import msgspec

from deltaic.errors import TableUnreadable, Unavailable
from deltaic.storage.aws_credentials import Credentials, default_credentials
from deltaic.storage.connections import connection
from deltaic.storage.endpoints import StorageConfig
from deltaic.storage.locations import TableLocations
from deltaic.storage.object_store_errors import map_error


class LogWriter(msgspec.Struct, frozen=True):
    """Writer for the Delta log of one table, which never deletes objects. Each call sends one request.

    Raises TableUnreadable if the store denies the write, Unavailable and TooManyRequests for transient errors.
    """

    locations: TableLocations
    storage: StorageConfig
    credentials: Callable[[], Credentials] = default_credentials

    def create(self, path: str, content: bytes) -> bool:
        """Write an object if it does not exist, and return whether it was written."""
        from obstore.exceptions import AlreadyExistsError

        try:
            self._put(path, content, "create")
        except AlreadyExistsError:
            return False
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write an object; overwrite it if it exists."""
        self._put(path, content, "overwrite")

    def _put(self, path: str, content: bytes, mode: Any) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, UnauthenticatedError

        name = self.locations.object_name(path)
        self.credentials()  # called here too, because obstore hides the class of its errors
        store = connection(name.bucket, self.storage, self.credentials)
        try:
            obstore.put(store, name.key, content, mode=mode, use_multipart=False)
        except AlreadyExistsError:
            raise
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise TableUnreadable(
                "the server may not write to the log of this table: ask its provider to allow it",
                f"s3://{name.bucket}/{name.key}: check the bucket's policy, or the role or keys of the table's storage",
            ) from error
        except Exception as error:
            translated = map_error(error, name, self.storage.region)
            if isinstance(translated, FileNotFoundError):
                translated = Unavailable("the storage of this table failed; try again")
            raise translated from error
