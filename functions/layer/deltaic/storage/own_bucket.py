"""The objects of a bucket of the server's own, which it reads and writes itself."""

from typing import Any

from deltaic.errors import Unavailable
from deltaic.storage.aws_credentials import own_credentials
from deltaic.storage.connections import connection
from deltaic.storage.endpoints import StorageConfig


class OwnBucket:
    """One bucket, by its name. All methods raise Unavailable where S3 fails: nothing of it is a caller's to correct."""

    def __init__(self, name: str, storage: StorageConfig) -> None:
        self.name = name
        self.storage = storage

    def get(self, key: str) -> bytes | None:
        """Return an object; None where there is none."""
        import obstore

        try:
            return bytes(obstore.get(self._client, key).bytes())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed(error, "read") from error

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        import obstore

        try:
            obstore.put(self._client, key, body)
        except Exception as error:
            raise self._failed(error, "write") from error

    def create(self, key: str, body: bytes) -> bool:
        """Write an object where there is none, and tell whether that was so."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._client, key, body, mode="create")
        except AlreadyExistsError:
            return False
        except Exception as error:
            raise self._failed(error, "write") from error
        return True

    def keys(self, folder: str) -> list[str]:
        """Return the keys below a folder, without a slash at its end, in byte order."""
        import obstore

        try:
            pages = obstore.list(self._client, folder)
            return sorted(str(one["path"]) for page in pages for one in page)
        except Exception as error:
            raise self._failed(error, "list") from error

    @property
    def _client(self) -> Any:
        return connection(self.name, self.storage, own_credentials)

    def _failed(self, error: Exception, what: str) -> Exception:
        if isinstance(error, Unavailable):
            return error
        return Unavailable(
            "the server cannot get at what it has made of this table at the moment; try again",
            f"cannot {what} in s3://{self.name}: {type(error).__name__}",
        )
