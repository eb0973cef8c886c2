"""Test that several kinds of values share one budget, and that the least recently used are evicted."""

from deltaic.lru import Lru, MemoryBudget
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
def test_the_budget_keeps_the_most_recently_used_values(steps: list[tuple[str, int, int, int]], max_bytes: int) -> None:
    budget = MemoryBudget(max_bytes)
    kinds: list[Lru[int, tuple[int, int]]] = [Lru(budget), Lru(budget)]
    used: list[tuple[int, int, int]] = []
    for step, kind, key, nbytes in steps:
        entry = next((used_entry for used_entry in used if used_entry[:2] == (kind, key)), None)
        used = [used_entry for used_entry in used if used_entry != entry]
        if step == "put":
            kinds[kind].put(key, (kind, key), nbytes)
            used.append((kind, key, nbytes))
            while sum(size for *_, size in used) > max_bytes:
                used.pop(0)
        else:
            value = kinds[kind].get(key) if step == "get" else kinds[kind].pop(key)
            assert value == (entry and entry[:2])
            used += [entry] if entry is not None and step == "get" else []
        assert budget.nbytes == sum(size for *_, size in used)
        assert [[lru_key for lru_key, _ in lru.items()] for lru in kinds] == [
            [key for owner, key, _ in used if owner == number] for number in (0, 1)
        ]


def test_grown_values_evict_the_oldest() -> None:
    budget = MemoryBudget(10)
    lists: Lru[str, list[int]] = Lru(budget)
    strings: Lru[str, str] = Lru(budget)
    strings.put("o", "oldest", 2)
    first, second = [1], [2]
    lists.put("first", first, 1)
    lists.put("second", second, 1)
    second += range(8)
    lists.remeasure(len)
    assert strings.get("o") is None
    assert (lists.get("first"), lists.get("second"), budget.nbytes) == (first, second, 10)
