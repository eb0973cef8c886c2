"""Read and write objects in the server's bucket, which contains generated metadata."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deltaic.errors import Unavailable
from deltaic.storage.aws_credentials import default_credentials
from deltaic.storage.connections import connection
from deltaic.storage.endpoints import StorageConfig


class ServerBucket:
    """S3 bucket of the server. All errors of S3 raise Unavailable, because recipients cannot fix them."""

    def __init__(self, name: str, storage: StorageConfig) -> None:
        self.name = name
        self.storage = storage

    def get(self, key: str) -> bytes | None:
        """Return an object; None if it does not exist."""
        import obstore

        with self._translate_errors("read"), suppress(FileNotFoundError):
            return bytes(obstore.get(self._client, key).bytes())
        return None

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""
        import obstore

        with self._translate_errors("write"):
            obstore.put(self._client, key, body)

    def create(self, key: str, body: bytes) -> bool:
        """Write an object if it does not exist; return whether it was written."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._translate_errors("write"), suppress(AlreadyExistsError):
            obstore.put(self._client, key, body, mode="create")
            return True
        return False

    def keys(self, folder: str) -> list[str]:
        """Return the keys in a folder (named without a final slash), in byte order."""
        import obstore

        with self._translate_errors("list"):
            pages = obstore.list(self._client, folder)
            return sorted(str(item["path"]) for page in pages for item in page)

    @property
    def _client(self) -> Any:
        return connection(self.name, self.storage, default_credentials)

    @contextmanager
    def _translate_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            raise
        except Exception as error:
            raise Unavailable(
                "the server cannot use the generated metadata of this table at the moment; try again",
                f"cannot {operation} in s3://{self.name}: {type(error).__name__}",
            ) from error
