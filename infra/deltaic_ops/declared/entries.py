"""A declaration as entries by name, each with its own fields: what two of them differ in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltaic_terminal.nearest import did_you_mean

from deltaic_ops.declared.model import Declaration, PolicyOf

WITHIN: Mapping[str, Mapping[str, str]] = {
    "": {"storages": "storage", "shares": "share", "recipients": "recipient"},
    "share": {"schemas": "schema"},
    "schema": {"tables": "table", "views": "view", "volumes": "volume", "skills": "skill", "models": "model"},
    "model": {"versions": "version"},
    "recipient": {"policies": "policy", "grants": "grant"},
}
"""Which fields hold entries of their own, by the kind of what holds them."""

_AS_NAMES = frozenset({("table", "hidden_columns"), ("view", "source")})
"""Fields whose texts match without regard to case: the catalog keeps the spelling of what they name."""

Key = tuple[str, tuple[str, ...]]
"""What an entry is found by: its kind, and its path in small letters, for names match without regard to case."""


def name_of(kind: str, path: tuple[str, ...]) -> str:
    """Return the name of an entry as people write it."""
    if kind == "version":
        return f"{'.'.join(path[:-1])} {path[-1]}"
    return (" " if kind in {"grant", "policy"} else ".").join(path)


@dataclass(frozen=True, slots=True)
class _Named:
    kind: str
    path: tuple[str, ...]
    """The names of all that holds it, and its own; of a grant its recipient and its share, of a policy its id."""

    @property
    def name(self) -> str:
        """As people write it: share.schema.table."""
        return name_of(self.kind, self.path)

    @property
    def title(self) -> str:
        """Its name behind its kind."""
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.kind, tuple(part.lower() for part in self.path)


@dataclass(frozen=True, slots=True)
class Entry(_Named):
    """One thing of a catalog as it is there, or in the files."""

    fields: Mapping[str, Any]
    """Its own, those with their defaults too."""


@dataclass(frozen=True, slots=True)
class Difference(_Named):
    """What an entry is in the files and what it is in the catalog."""

    in_files: Mapping[str, Any] | None
    in_catalog: Mapping[str, Any] | None
    """The fields that differ; all where the other side has no such entry, which is None there."""


def entries(declaration: Declaration) -> Iterator[Entry]:
    """Yield all entries, each behind what holds it."""
    yield from _entries("", (), declaration.model_dump(mode="json"))


def _entries(kind: str, path: tuple[str, ...], held: Mapping[str, Any]) -> Iterator[Entry]:
    groups = WITHIN.get(kind, {})
    if kind:
        yield Entry(kind, path, {field: value for field, value in held.items() if field not in groups})
    for group, inner in groups.items():
        some = held[group]
        if inner == "policy":
            some = {PolicyOf.model_validate(one).id: one for one in some}
        for own, value in some.items():
            yield from _entries(inner, (*path, str(own)), value)


def differences(files: Declaration, catalog: Declaration) -> list[Difference]:
    """Return what differs, in the order of the files and then of what only the catalog has."""
    declared = {one.key: one for one in entries(files)}
    there = {one.key: one for one in entries(catalog)}
    found = []
    for key, one in declared.items():
        other = there.get(key)
        if other is None:
            found.append(Difference(one.kind, one.path, one.fields, None))
            continue
        unlike = [name for name, value in one.fields.items() if not _same((one.kind, name), value, other.fields[name])]
        if unlike:
            mine, theirs = ({name: each.fields[name] for name in unlike} for each in (one, other))
            found.append(Difference(one.kind, one.path, mine, theirs))
    found += [Difference(one.kind, one.path, None, one.fields) for key, one in there.items() if key not in declared]
    return found


def _same(field: tuple[str, str], one: Any, other: Any) -> bool:
    return bool(one == other or (field in _AS_NAMES and str(one).lower() == str(other).lower()))


def policies_said_twice(declaration: Declaration) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the way to each policy that an earlier one says already: who a JWT lets in is one recipient."""
    first: dict[str, str] = {}
    for name, person in declaration.recipients.items():
        for number, policy in enumerate(person.policies):
            if policy.id in first:
                yield ("recipients", name, "policies", number), f"says what a policy of {first[policy.id]}'s says"
            first.setdefault(policy.id, name)


def unknown_names(declaration: Declaration) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the way to each field that names what no file has, and what is wrong with it."""
    there: dict[str, dict[str, str]] = {"share": {}, "storage": {}}
    every = list(entries(declaration))
    for one in every:
        if one.kind in there:
            there[one.kind][one.name.lower()] = one.name
    for one in every:
        if one.kind == "grant":
            named = [("share", one.path[1], "")]
        else:
            named = [("storage", one.fields["storage"], "storage")] if one.kind in _IN_STORAGES else []
            if follow := one.fields.get("follow"):
                named.append(("storage", follow["storage"], "follow"))
        for kind, name, field in named:
            if name and name.lower() not in there[kind]:
                way = tuple(part for pair in zip(_groups(one.kind), one.path, strict=True) for part in pair)
                said = f"names no {kind} of these files{did_you_mean(name, there[kind].values())}"
                yield (*way, field) if field else way, said


_IN_STORAGES = frozenset({"table", "volume", "skill", "version"})
"""Kinds that may lie in a storage."""


def _groups(kind: str) -> tuple[str, ...]:
    above, group = next((above, group) for above, some in WITHIN.items() for group, one in some.items() if one == kind)
    return (*(_groups(above) if above else ()), group)
