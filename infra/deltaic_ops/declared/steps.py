"""Order the changes of a catalog so that rights of recipients are removed before any are added."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from deltaic.catalog.admin.follow_admin import GLUE
from deltaic.storage.locations import Location

from deltaic_ops.declared.declaration import PARTS, Declaration
from deltaic_ops.declared.differences import CatalogDifference, Key, entries

Action = Literal["delete", "create", "update"]

_KINDS = tuple(PARTS)
"""All kinds of entries; each is after the kinds to which it can refer."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a plan: the creation, update or deletion of a catalog entry."""

    difference: CatalogDifference
    widens: bool
    """Whether a recipient sees more after this step."""

    nested_deletions: int = 0
    """Number of child entries that are deleted with this entry."""

    is_pause: bool = False
    """Whether the step removes a grant temporarily, or adds it again, while its entries change."""

    @property
    def action(self) -> Action:
        """Type of the change: create, update or delete."""
        if self.difference.in_files is None:
            return "delete"
        return "create" if self.difference.in_catalog is None else "update"

    @property
    def phase(self) -> int:
        """Phase of the step, 0 to 6; a phase starts after all steps of the previous one."""
        kind = self.difference.kind
        if self.action == "delete":
            return 6 if kind == "storage" else 0
        if kind in {"storage", "share", "schema"} and not self.widens:
            return 1
        if self.action == "update" and not self.widens:
            return 2
        return {"recipient": 4, "policy": 5, "grant": 5}.get(kind, 3)


def steps(differences: Iterable[CatalogDifference], files: Declaration, catalog: Declaration) -> list[PlanStep]:
    """Return the steps in order of execution; an entry that is deleted with its parent has no step."""
    recipients = [*files.recipients.values(), *catalog.recipients.values()]
    granted_shares = frozenset(share.lower() for recipient in recipients for share in recipient.grants)
    return sorted(_add_pauses(list(_plan_steps(differences, granted_shares, files)), files, catalog), key=_order)


def refollow_remark(change: CatalogDifference, files: Declaration) -> str:
    """Return a warning if a schema that follows a source can share a deleted table again, unfiltered."""
    before = change.in_catalog or {}
    is_filtered = before.get("partition_filter") or before.get("hidden_columns")
    if change.kind != "table" or change.in_files is not None or not is_filtered:
        return ""
    location = Location.parse(before["location"])
    for share, share_declaration in files.shares.items():
        for schema, declaration in share_declaration.schemas.items():
            source = declaration.follow.source if declaration.follow else ""
            if source.startswith(GLUE) or (source and Location.parse(source).contains(location)):
                remark = f"can share table {change.name} again, without its filter: add it to `exclude` there"
                return f"{share}.{schema} follows {source}, which {remark}"
    return ""


def _add_pauses(steps_: list[PlanStep], files: Declaration, catalog: Declaration) -> list[PlanStep]:
    """Add steps that remove a grant temporarily while two changes affect the rows of its recipient.

    For example, a row filter moves from the table to the grant. Between the two changes, the recipient could see rows
    that it sees neither before nor after.
    """
    changes = [step.difference for step in steps_ if step.widens and step.action == "update"]
    widened_shares = {change.root for change in changes if change.kind in {"table", "view", "schema"}}
    changed_recipients = {change.root for change in changes if change.kind == "recipient"}
    grants = {step.difference.key: step for step in steps_ if step.difference.kind == "grant"}
    after = {entry.key: entry for entry in entries(files) if entry.kind == "grant"}
    pauses = []
    for entry in entries(catalog):
        grant_step = grants.get(entry.key)
        if entry.kind != "grant" or entry.key not in after or entry.path[1].lower() not in widened_shares:
            continue
        if entry.root in changed_recipients or (grant_step and grant_step.widens):
            removal = CatalogDifference("grant", entry.path, None, entry.fields)
            addition = CatalogDifference("grant", entry.path, after[entry.key].fields, None)
            pauses.append(PlanStep(removal, widens=False, is_pause=True))
            pauses.append(PlanStep(addition, widens=True, is_pause=True))
            steps_ = [step for step in steps_ if step is not grant_step]
    return [*steps_, *pauses]


def _order(step: PlanStep) -> tuple[int, int, bool]:
    order = _KINDS.index(step.difference.kind)
    return step.phase, -order if step.action == "delete" else order, step.action == "create"


def _plan_steps(
    differences: Iterable[CatalogDifference], granted_shares: frozenset[str], files: Declaration
) -> Iterator[PlanStep]:
    changes = {change.key: change for change in differences}
    deleted = {key for key, change in changes.items() if change.in_files is None}
    nested_counts: dict[Key, int] = dict.fromkeys(deleted, 0)
    for key in deleted:
        if parent := _deleting_parent(key, deleted):
            nested_counts[parent] += 1
    for key, change in changes.items():
        if key in deleted and _deleting_parent(key, deleted):
            continue
        fields = change.in_files or {}
        if change.kind == "schema" and change.in_catalog is None and fields.get("follow"):
            # First create the schema, which shows nothing yet.
            yield PlanStep(CatalogDifference("schema", change.path, {**fields, "follow": None}, None), widens=False)
            following = CatalogDifference("schema", change.path, {"follow": fields["follow"]}, {"follow": None})
            yield PlanStep(following, widens(following, granted_shares))
            continue
        shows_more = widens(change, granted_shares) or bool(refollow_remark(change, files))
        yield PlanStep(change, shows_more, nested_counts.get(key, 0))


def _deleting_parent(key: Key, deleted: set[Key]) -> Key | None:
    """Return the outermost entry in `deleted` whose deletion also deletes this entry."""
    kind, path = key
    parents: dict[str, list[Key]] = {
        "grant": [("recipient", path[:1]), ("share", path[1:])],
        "policy": [("recipient", path[:1])],
        "storage": [],
        "recipient": [],
    }
    candidates = parents.get(kind, [("share", path[:1]), ("schema", path[:2]), ("model", path[:3])])
    return next((candidate for candidate in candidates if candidate in deleted and candidate != key), None)


_SHARED_KINDS = frozenset({"table", "view", "volume", "skill", "version"})
_HARMLESS_FIELDS = frozenset({"comment", "display_name", "checkpoint", "key", "refresh", "max_staleness", "run_id"})
_ICEBERG_LEVELS: Mapping[str, Any] = {"": 0, "signed": 1, "vended": 2}


def widens(change: CatalogDifference, granted_shares: frozenset[str]) -> bool:
    """Return whether a change of the catalog lets a recipient see more.

    `granted_shares` are the lower-case names of shares with grants, before or after the change.
    """
    if change.in_files is None:
        return False
    if change.kind in {"schema", *_SHARED_KINDS} and change.root not in granted_shares:
        return False
    if change.in_catalog is None:
        return change.kind in {"grant", "policy", *_SHARED_KINDS} or bool(change.in_files.get("follow"))
    if change.kind == "share":
        return False
    return any(_shows_more(name, change.in_catalog[name], value) for name, value in change.in_files.items())


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
            return bool(_ICEBERG_LEVELS[after] > _ICEBERG_LEVELS[before])
        case "addresses":
            return bool(before) and (not after or not set(after) <= set(before))
        case "requests_per_minute" | "bytes_per_day":
            return bool(before) and (not after or after > before)
        case "ends_at":
            parse = datetime.fromisoformat
            return before is not None and (after is None or parse(after) > parse(before))
        case _:
            return field not in _HARMLESS_FIELDS
