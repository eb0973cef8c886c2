"""Caches with a limit in bytes that evict the least recently used values first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar, cast

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class MemoryBudget:
    """Memory limit in bytes that several Lru caches share, each for one kind of value; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        """Bytes of all cached values; at most `max_bytes` after each call."""
        self.lock = Lock()
        self.values: OrderedDict[tuple[object, Hashable], tuple[int, object]] = OrderedDict()
        """(kind, key) -> (bytes, value) of all cached values, the least recently used first."""

    def evict(self) -> None:
        """Evict the least recently used values until the others fit the limit; the caller must hold the lock."""
        while self.nbytes > self.max_bytes:
            _, (freed, _) = self.values.popitem(last=False)
            self.nbytes -= freed


class Lru(Generic[_K, _V]):
    """Least-recently-used cache for one kind of value; with a budget of 0 bytes it caches nothing."""

    def __init__(self, budget: MemoryBudget, kind: Hashable = None) -> None:
        """Create a cache. Caches with the same budget and `kind` share values; by default, none are shared."""
        self._budget = budget
        self._kind = object() if kind is None else kind

    def get(self, key: _K) -> _V | None:
        """Return the value of a key and mark it as used; None if it is not cached."""
        budget, entry_key = self._budget, (self._kind, key)
        with budget.lock:
            entry = budget.values.get(entry_key)
            if entry is None:
                return None
            budget.values.move_to_end(entry_key)
            return cast("_V", entry[1])

    def pop(self, key: _K) -> _V | None:
        """Remove and return the value of a key; None if it is not cached."""
        with self._budget.lock:
            nbytes, value = self._budget.values.pop((self._kind, key), (0, None))
            self._budget.nbytes -= nbytes
            return cast("_V | None", value)

    def put(self, key: _K, value: _V, nbytes: int) -> None:
        """Cache a value, and evict others if the budget is exceeded; a value larger than the budget is not cached."""
        budget, entry_key = self._budget, (self._kind, key)
        with budget.lock:
            before, _ = budget.values.pop(entry_key, (0, None))
            budget.nbytes += nbytes - before
            budget.values[entry_key] = (nbytes, value)
            budget.evict()

    def items(self) -> list[tuple[_K, _V]]:
        """Return all keys and values, least recently used first, without marking them as used."""
        with self._budget.lock:
            return [
                (cast("_K", key), cast("_V", value))
                for (kind, key), (_, value) in self._budget.values.items()
                if kind == self._kind
            ]

    def remeasure(self, nbytes: Callable[[_V], int]) -> None:
        """Measure all values of this cache again with `nbytes`, because cached values can grow; evicts if necessary."""
        budget = self._budget
        with budget.lock:
            for entry_key, (before, value) in list(budget.values.items()):
                if entry_key[0] == self._kind:
                    after = nbytes(cast("_V", value))
                    budget.values[entry_key] = (after, value)
                    budget.nbytes += after - before
            budget.evict()
