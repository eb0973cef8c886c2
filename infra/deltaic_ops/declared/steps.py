"""The steps that change a catalog to match files, in an order that removes rights before it adds any."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from deltaic.catalog.admin.follow_admin import GLUE
from deltaic.storage.locations import Location

from deltaic_ops.declared.declaration import PARTS, Declaration
from deltaic_ops.declared.differences import Difference, Key, entries

Action = Literal["delete", "create", "update"]

_KINDS = tuple(PARTS)
"""All kinds, each after the kinds that it needs."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the catalog."""

    difference: Difference
    widens: bool
    """Whether a recipient sees more after it."""

    also: int = 0
    """Number of entries that are deleted with this one."""

    is_pause: bool = False
    """Whether a grant is removed only while the entries that it shows change."""

    @property
    def action(self) -> Action:
        """The kind of change."""
        if self.difference.in_files is None:
            return "delete"
        return "create" if self.difference.in_catalog is None else "update"

    @property
    def phase(self) -> int:
        """Number of the phase; all steps of a phase finish, in any order, before the next phase starts."""
        kind = self.difference.kind
        if self.action == "delete":
            return 6 if kind == "storage" else 0
        if kind in {"storage", "share", "schema"} and not self.widens:
            return 1
        if self.action == "update" and not self.widens:
            return 2
        return {"recipient": 4, "policy": 5, "grant": 5}.get(kind, 3)


def steps(found: Iterable[Difference], files: Declaration, catalog: Declaration) -> list[Step]:
    """Return the steps of differences in their order; what goes with something else has none of its own."""
    held = frozenset(
        share.lower() for side in (files, catalog) for person in side.recipients.values() for share in person.grants
    )
    return sorted(_paused(list(_changes(found, held, files)), files, catalog), key=_place)


def comes_back(one: Difference, files: Declaration) -> str:
    """Return a remark about a deleted filtered table that a followed source may share again without its filter."""
    before = one.in_catalog or {}
    if one.kind != "table" or one.in_files is not None or not (before["partition_filter"] or before["hidden_columns"]):
        return ""
    place = Location.parse(before["location"])
    for share, held in files.shares.items():
        for schema, some in held.schemas.items():
            source = some.follow.source if some.follow else ""
            if source.startswith(GLUE) or (source and Location.parse(source).contains(place)):
                back = f"may share table {one.name} again, without its filter: add it to `exclude` there"
                return f"{share}.{schema} follows {source}, which {back}"
    return ""


def _paused(made: list[Step], files: Declaration, catalog: Declaration) -> list[Step]:
    """Add steps that pause a grant while two changes of its recipient's rows are made.

    An example is a filter that moves from the table to the grant: between the two changes, the recipient could see rows
    that it sees neither before nor after.
    """
    changes = [step.difference for step in made if step.widens and step.action == "update"]
    wide = {one.path[0].lower() for one in changes if one.kind in {"table", "view", "schema"}}
    people = {one.path[0].lower() for one in changes if one.kind == "recipient"}
    grants = {step.difference.key: step for step in made if step.difference.kind == "grant"}
    after = {one.key: one for one in entries(files) if one.kind == "grant"}
    pauses = []
    for one in entries(catalog):
        own = grants.get(one.key)
        if one.kind != "grant" or one.key not in after or one.path[1].lower() not in wide:
            continue
        if one.path[0].lower() in people or (own and own.widens):
            pauses.append(Step(Difference("grant", one.path, None, one.fields), widens=False, is_pause=True))
            pauses.append(Step(Difference("grant", one.path, after[one.key].fields, None), widens=True, is_pause=True))
            made = [step for step in made if step is not own]
    return [*made, *pauses]


def _place(step: Step) -> tuple[int, int, bool]:
    order = _KINDS.index(step.difference.kind)
    return step.phase, -order if step.action == "delete" else order, step.action == "create"


def _changes(found: Iterable[Difference], held: frozenset[str], files: Declaration) -> Iterator[Step]:
    changed = {one.key: one for one in found}
    gone = {key for key, one in changed.items() if one.in_files is None}
    with_it: dict[Key, int] = dict.fromkeys(gone, 0)
    for key in gone:
        if top := _goes_with(key, gone):
            with_it[top] += 1
    for key, one in changed.items():
        if key in gone and _goes_with(key, gone):
            continue
        if one.kind == "schema" and one.in_catalog is None and one.in_files and one.in_files["follow"]:
            # Creating the schema shows nothing yet.
            follow = {"follow": one.in_files["follow"]}
            yield Step(Difference("schema", one.path, {**one.in_files, "follow": None}, None), widens=False)
            entered = Difference("schema", one.path, follow, {"follow": None})
            yield Step(entered, widens(entered, held))
            continue
        yield Step(one, widens(one, held) or bool(comes_back(one, files)), with_it.get(key, 0))


def _goes_with(key: Key, gone: set[Key]) -> Key | None:
    """Return the top-level entry whose deletion also deletes this one."""
    kind, path = key
    within: dict[str, list[Key]] = {
        "grant": [("recipient", path[:1]), ("share", path[1:])],
        "policy": [("recipient", path[:1])],
        "storage": [],
        "recipient": [],
    }
    above = within.get(kind, [("share", path[:1]), ("schema", path[:2]), ("model", path[:3])])
    return next((one for one in above if one in gone and one != key), None)


_SHARED = frozenset({"table", "view", "volume", "skill", "version"})
"""Kinds whose entries recipients of the share see."""

_HARMLESS = frozenset({"comment", "display_name", "checkpoint", "key", "refresh", "max_staleness", "run_id"})
_OPENED: Mapping[str, Any] = {"": 0, "signed": 1, "vended": 2}


def widens(one: Difference, held: frozenset[str]) -> bool:
    """Return whether a change lets a recipient see more.

    `held` are the lower-case names of shares that are granted, before or after the change.
    """
    if one.in_files is None:
        return False
    if (one.kind in _SHARED or one.kind == "schema") and one.path[0].lower() not in held:
        return False
    if one.in_catalog is None:
        return one.kind in {"grant", "policy", *_SHARED} or bool(one.in_files.get("follow"))
    if one.kind == "share":
        return False
    return any(_shows_more(name, one.in_catalog[name], value) for name, value in one.in_files.items())


def _shows_more(field: str, before: Any, after: Any) -> bool:
    match field:
        case "partition_filter":
            return bool(before)
        case "hidden_columns":
            return not {name.lower() for name in before} <= {name.lower() for name in after}
        case "access_modes" | "auxiliary_locations":
            return not set(after) <= set(before)
        case "history" | "follow":
            return bool(after)
        case "start_version":
            return int(after) < int(before)
        case "iceberg":
            return bool(_OPENED[after] > _OPENED[before])
        case "addresses":
            return bool(before) and (not after or not set(after) <= set(before))
        case "requests_per_minute" | "bytes_per_day":
            return bool(before) and (not after or after > before)
        case "ends_at":
            moment = datetime.fromisoformat
            return before is not None and (after is None or moment(after) > moment(before))
        case _:
            return field not in _HARMLESS
