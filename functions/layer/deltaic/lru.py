"""Keeps values within a number of bytes: what was used least recently is let go first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar, cast

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Room:
    """A number of bytes that values of several kinds share; each kind has an Lru of its own. For all threads."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        """Bytes held now; never more than `max_bytes` once a call has returned."""
        self.lock = Lock()
        self.values: OrderedDict[tuple[object, Hashable], tuple[int, object]] = OrderedDict()
        """Of all kinds, by kind and key, the least recently used first."""

    def make(self) -> None:
        """Let go of values until the others fit; the lock is the caller's."""
        while self.nbytes > self.max_bytes:
            _, (freed, _) = self.values.popitem(last=False)
            self.nbytes -= freed


class Lru(Generic[_K, _V]):
    """The values of one kind in a room; an empty room keeps nothing."""

    def __init__(self, room: Room, kind: Hashable = None) -> None:
        """Keep values apart from those of other kinds; without a `kind`, from those of every other Lru."""
        self._room = room
        self._kind = object() if kind is None else kind

    def get(self, key: _K) -> _V | None:
        """Return what is kept under a key, now the most recently used; None for nothing."""
        room, place = self._room, (self._kind, key)
        with room.lock:
            held = room.values.get(place)
            if held is None:
                return None
            room.values.move_to_end(place)
            return cast("_V", held[1])

    def take(self, key: _K) -> _V | None:
        """Return what is kept under a key, and keep it no longer: for what only one can go on with."""
        with self._room.lock:
            nbytes, value = self._room.values.pop((self._kind, key), (0, None))
            self._room.nbytes -= nbytes
            return cast("_V | None", value)

    def put(self, key: _K, value: _V, nbytes: int) -> None:
        """Keep a value, letting go of others for it; of itself, where it is larger than the room."""
        room, place = self._room, (self._kind, key)
        with room.lock:
            before, _ = room.values.pop(place, (0, None))
            room.nbytes += nbytes - before
            room.values[place] = (nbytes, value)
            room.make()

    def items(self) -> list[tuple[_K, _V]]:
        """Return all that is kept of this kind, the least recently used first; nothing counts as used by that."""
        with self._room.lock:
            return [
                (cast("_K", key), cast("_V", value))
                for (kind, key), (_, value) in self._room.values.items()
                if kind == self._kind
            ]

    def weigh(self, nbytes: Callable[[_V], int]) -> None:
        """Measure all values of this kind again, for those that grow while they are kept."""
        room = self._room
        with room.lock:
            for place, (before, value) in list(room.values.items()):
                if place[0] == self._kind:
                    now = nbytes(cast("_V", value))
                    room.values[place] = (now, value)
                    room.nbytes += now - before
            room.make()
