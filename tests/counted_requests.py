"""Count the requests of an object store."""

from deltaic.storage.objects import ObjectTableStore


def count_requests(store: ObjectTableStore) -> list[str]:
    """Return a list that grows by the bucket of each request; pages of a listing count once."""
    requests: list[str] = []
    connect = store._store

    def counted(bucket: str) -> object:
        requests.append(bucket)
        return connect(bucket)

    store._store = counted  # type: ignore[method-assign]
    return requests
