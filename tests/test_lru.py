"""Values of several kinds share one room, and what was used least recently makes way."""

from deltaic.lru import Lru, Room
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 1), KEYS, st.integers(0, 60)),
        st.tuples(st.sampled_from(["get", "take"]), st.integers(0, 1), KEYS, st.just(0)),
    ),
    max_size=40,
)


@given(steps=STEPS, max_bytes=st.integers(0, 100))
def test_the_room_holds_the_most_recently_used_that_fit(steps: list[tuple[str, int, int, int]], max_bytes: int) -> None:
    room = Room(max_bytes)
    kinds: list[Lru[int, tuple[int, int]]] = [Lru(room), Lru(room)]
    used: list[tuple[int, int, int]] = []
    for step, kind, key, nbytes in steps:
        held = next((one for one in used if one[:2] == (kind, key)), None)
        used = [one for one in used if one != held]
        if step == "put":
            kinds[kind].put(key, (kind, key), nbytes)
            used.append((kind, key, nbytes))
            while sum(size for *_, size in used) > max_bytes:
                used.pop(0)
        else:
            value = kinds[kind].get(key) if step == "get" else kinds[kind].take(key)
            assert value == (held and held[:2])
            used += [held] if held is not None and step == "get" else []
        assert room.nbytes == sum(size for *_, size in used)
        assert [[found for found, _ in lru.items()] for lru in kinds] == [
            [key for owner, key, _ in used if owner == number] for number in (0, 1)
        ]


def test_what_has_grown_makes_the_oldest_go() -> None:
    room = Room(10)
    lists: Lru[str, list[int]] = Lru(room)
    other: Lru[str, str] = Lru(room)
    other.put("o", "oldest", 2)
    first, second = [1], [2]
    lists.put("first", first, 1)
    lists.put("second", second, 1)
    second += range(8)
    lists.weigh(len)
    assert other.get("o") is None
    assert (lists.get("first"), lists.get("second"), room.nbytes) == (first, second, 10)
