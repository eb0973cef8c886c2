"""The objects of a bucket of the server's own, which it reads and writes itself."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deltaic.errors import Unavailable
from deltaic.storage.aws_credentials import default_credentials
from deltaic.storage.connections import connection
from deltaic.storage.endpoints import StorageConfig


class ServerBucket:
    """One bucket, by its name. All methods raise Unavailable where S3 fails: nothing of it is a caller's to correct."""

    def __init__(self, name: str, storage: StorageConfig) -> None:
        self.name = name
        self.storage = storage

    def get(self, key: str) -> bytes | None:
        """Return an object; None where there is none."""
        import obstore

        with self._failing("read"), suppress(FileNotFoundError):
            return bytes(obstore.get(self._client, key).bytes())
        return None

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        import obstore

        with self._failing("write"):
            obstore.put(self._client, key, body)

    def create(self, key: str, body: bytes) -> bool:
        """Write an object where there is none, and tell whether that was so."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._failing("write"), suppress(AlreadyExistsError):
            obstore.put(self._client, key, body, mode="create")
            return True
        return False

    def keys(self, folder: str) -> list[str]:
        """Return the keys below a folder, without a slash at its end, in byte order."""
        import obstore

        with self._failing("list"):
            pages = obstore.list(self._client, folder)
            return sorted(str(one["path"]) for page in pages for one in page)

    @property
    def _client(self) -> Any:
        return connection(self.name, self.storage, default_credentials)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            raise
        except Exception as error:
            raise Unavailable(
                "the server cannot get at what it has made of this table at the moment; try again",
                f"cannot {what} in s3://{self.name}: {type(error).__name__}",
            ) from error
