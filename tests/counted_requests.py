"""Counts the requests of a store of objects."""

from deltaic.storage.objects import ObjectTableStore


def count_requests(store: ObjectTableStore) -> list[str]:
    """Return a list that grows by the bucket of each request from now on; pages of one listing count as one."""
    requests: list[str] = []
    connect = store._store

    def counted(bucket: str) -> object:
        requests.append(bucket)
        return connect(bucket)

    store._store = counted  # type: ignore[method-assign]
    return requests
