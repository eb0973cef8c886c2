"""Describe how changes of the catalog affect recipients: what they gain, lose, or see differently."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from deltaic.partition_filters import parse

from deltaic_ops.declared.declaration import Declaration, GrantOf, texts_of
from deltaic_ops.declared.differences import CatalogDifference, DeclaredEntry, entries
from deltaic_ops.inspection.filter_checks import missing_for_filters

_parse = lru_cache(maxsize=4096)(parse)
"""Parses a row filter; results are cached, because the same filter is needed for each recipient."""

_SHARED_KINDS = ("table", "view", "volume", "skill", "version")
FOLLOWED = "followed schema"
"""Kind of a pseudo entry for a schema that follows a source; it stands for all tables of the source."""

_MAX_NAMES = 5


@dataclass(frozen=True, slots=True)
class Effect:
    """Names of recipients on whom the planned changes have the same effect, and this effect as sentences."""

    recipients: tuple[str, ...]
    changes: tuple[str, ...]
    """Sentences about a recipient without their subject, such as `loses 3 tables: ...`."""

    def __str__(self) -> str:
        names = self.recipients
        subject = names[0] if len(names) == 1 else f"{len(names)} recipients ({join_names(names)}): each"
        return f"{subject} {'; '.join(self.changes)}"


def effects_of(differences: Iterable[CatalogDifference], files: Declaration, catalog: Declaration) -> list[Effect]:
    """Return the effects on recipients of changing the catalog to match the files; ignores expired grants."""
    changed = list(differences)
    before, after = _CatalogState(catalog), _CatalogState(files)
    recipients: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    shares = {entry.root for entry in changed if entry.kind in {"schema", *_SHARED_KINDS}}
    moved = {entry.root for entry in changed if entry.kind == "storage" and entry.in_files and entry.in_catalog}
    shares |= {
        share
        for share, shared in after.shared.items()
        if any(entry.fields.get("storage") in moved for entry in shared.values())
    }
    changed_recipients = {entry.root: entry for entry in changed if entry.kind == "recipient"}
    policies: defaultdict[str, list[CatalogDifference]] = defaultdict(list)
    for entry in changed:
        if entry.kind == "policy":
            policies[entry.root].append(entry)
    affected = {*changed_recipients, *(entry.root for entry in changed if entry.kind == "grant")}
    for key in before.recipients.keys() | after.recipients.keys():
        granted = before.grants_of(key).keys() | after.grants_of(key).keys()
        changed_shares = sorted(granted if key in affected else granted & shares)
        changes = [change for share in changed_shares for change in _share_changes(share, key, [before, after], moved)]
        if texts := (*_sentences(changes), *_recipient_changes(changed_recipients.get(key), policies[key])):
            recipients[texts].append(after.recipients.get(key) or before.recipients[key])
    effects = (Effect(tuple(sorted(names)), texts) for texts, names in recipients.items())
    return sorted(effects, key=lambda effect: effect.recipients)


def join_names(names: Iterable[str]) -> str:
    """Return names separated by commas; after the first five, only the number of the others."""
    items = list(names)
    rest = [f"and {len(items) - _MAX_NAMES} more"] if len(items) > _MAX_NAMES else []
    return ", ".join([*items[:_MAX_NAMES], *rest])


class _CatalogState:
    def __init__(self, declaration: Declaration) -> None:
        now = datetime.now(UTC)
        self.shared: defaultdict[str, dict[tuple[str, str], DeclaredEntry]] = defaultdict(dict)
        for entry in entries(declaration):
            if entry.kind in _SHARED_KINDS:
                self.shared[entry.root][entry.kind, entry.name.lower()] = entry
            elif entry.fields.get("follow"):
                followed = DeclaredEntry(FOLLOWED, entry.path, entry.fields["follow"])
                self.shared[entry.root][FOLLOWED, entry.name.lower()] = followed
        recipients = declaration.recipients.items()
        self.recipients = {name.lower(): name for name, _ in recipients}
        self._properties = {name.lower(): texts_of(recipient.properties) for name, recipient in recipients}
        self._grants = {
            name.lower(): {
                share.lower(): grant
                for share, grant in recipient.grants.items()
                if grant.ends_at is None or grant.ends_at > now
            }
            for name, recipient in recipients
        }

    def grants_of(self, recipient: str) -> Mapping[str, GrantOf]:
        """Return the unexpired grants of a recipient by lower-case share name."""
        return self._grants.get(recipient, {})

    def missing_properties(self, share: str, recipient: str) -> Mapping[str, str]:
        """Return, by table name, the properties that row filters need and the recipient lacks, comma-separated."""
        properties, grants = self._properties.get(recipient, {}), self.grants_of(recipient)
        result = {}
        for (kind, _), entry in self.visible_entries(share, recipient).items():
            texts = [entry.fields["partition_filter"] if kind == "table" else "", grants[share].partition_filter]
            if missing := missing_for_filters(properties, [_parse(text) for text in texts if text]):
                result[entry.name] = ", ".join(missing)
        return result

    def visible_entries(self, share: str, recipient: str) -> Mapping[tuple[str, str], DeclaredEntry]:
        """Return a share's entries that a recipient sees; a grant with a row filter shows only tables and views."""
        grants = self.grants_of(recipient)
        if share not in grants:
            return {}
        return {
            key: entry
            for key, entry in self.shared[share].items()
            if not grants[share].partition_filter or key[0] in {"table", "view", FOLLOWED}
        }


_Change = tuple[str, str, str]
"""Change for one recipient: `loses` or `gains`, kind and name of an entry; or two empty strings and a phrase."""


def _share_changes(share: str, key: str, states: list[_CatalogState], moved: Collection[str]) -> Iterator[_Change]:
    old, new = (state.visible_entries(share, key) for state in states)
    for verb, visible, invisible in (("loses", old, new), ("gains", new, old)):
        yield from ((verb, entry.kind, entry.name) for name, entry in visible.items() if name not in invisible)
    grants = [state.grants_of(key).get(share) for state in states]
    if grants[0] and grants[1] and grants[0].ends_at != grants[1].ends_at:
        ends = grants[1].ends_at
        yield "", "", f"has access to {share} {f'until {ends:%Y-%m-%d %H:%M} UTC' if ends else 'without expiry'}"
    missing_before, missing_after = (state.missing_properties(share, key) for state in states)
    newly_missing = {name: text for name, text in missing_after.items() if missing_before.get(name) != text}
    for missing in sorted({*newly_missing.values()}):
        tables = join_names(name for name, text in newly_missing.items() if text == missing)
        yield "", "", f"sees no rows of {tables}: missing {missing}"
    filters = [grant.partition_filter if grant else "" for grant in grants]
    for entry_key, entry in new.items():
        if entry_key in old:
            yield from (("", "", change) for change in _entry_changes(old[entry_key], entry, *filters))
            if entry.fields.get("storage") in moved:
                yield "", "", f"reads {entry.name} from another location"


def _sentences(changes: Iterable[_Change]) -> Iterator[str]:
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    sentences = []
    for verb, kind, text in changes:
        if verb:
            names[verb, kind].append(text)
        else:
            sentences.append(text)
    for (verb, kind), items in names.items():
        noun = f"{kind} of a model" if kind == "version" and len(items) == 1 else kind
        noun = "versions of models" if kind == "version" and len(items) > 1 else noun
        plural = "" if len(items) == 1 or kind == "version" else "s"
        yield f"{verb} {len(items)} {noun}{plural}: {join_names(items)}"
    yield from sentences


def _entry_changes(before: DeclaredEntry, after: DeclaredEntry, old_filter: str, new_filter: str) -> Iterator[str]:
    old, new, name = before.fields, after.fields, after.name
    rows = [{text for text in (fields.get("partition_filter", ""), grant_filter) if text}
            for fields, grant_filter in ((old, old_filter), (new, new_filter))]  # fmt: skip
    if rows[0] != rows[1]:
        kind = "fewer" if rows[0] < rows[1] else "more" if rows[1] < rows[0] else "other"
        yield f"sees {kind} rows of {name}"
    hidden = [{column.lower() for column in fields.get("hidden_columns", ())} for fields in (old, new)]
    for count, kind in ((len(hidden[1] - hidden[0]), "fewer"), (len(hidden[0] - hidden[1]), "more")):
        if count:
            yield f"sees {count} column{'s' * (count > 1)} {kind} of {name}"
    if old.get("history") != new.get("history"):
        yield f"sees {'earlier versions' if new['history'] else 'no earlier version'} of {name}"
    if old.get("start_version") != new.get("start_version"):
        yield f"sees versions of {name} from {new['start_version']}"
    if old.get("exclude") != new.get("exclude"):
        yield f"sees other tables of the source that {name} follows"
    if old.get("sql") != new.get("sql"):
        yield f"sees {name} with other SQL, and nothing until it is refreshed"
    location_fields = ("source", "storage") if after.kind == FOLLOWED else _LOCATION_FIELDS
    if any(old.get(field) != new.get(field) for field in location_fields):
        yield f"reads {name} from another location"
    modes = [set(fields.get("access_modes", ())) for fields in (old, new)]
    for changed, verb in ((modes[1] - modes[0], "can read"), (modes[0] - modes[1], "can no longer read")):
        yield from (f"{verb} {name} with {_MODES[mode]}" for mode in sorted(changed))
    if old.get("iceberg") != new.get("iceberg"):
        sentence = f"can read {name} with Iceberg clients ({new['iceberg']})"
        yield sentence if new["iceberg"] else f"can no longer read {name} with Iceberg clients"


_LOCATION_FIELDS = ("location", "storage", "auxiliary_locations", "format", "metadata_location")
_MODES = {"dir": "credentials for its folder", "url": "signed URLs"}
_RECIPIENT_FIELDS: Mapping[str, str] = {
    "properties": "has other properties, which filters and views use to select rows",
    "addresses": "has other allowed addresses",
}
_LIMITS: Mapping[str, str] = {"requests_per_minute": "requests per minute", "bytes_per_day": "bytes per day"}


def _recipient_changes(change: CatalogDifference | None, policies: Iterable[CatalogDifference]) -> Iterator[str]:
    policy_changes = list(policies)
    if change is not None and change.in_files is None:
        yield "is deleted, with all its tokens and policies"
        return
    for policy in policy_changes:
        if policy.in_catalog is None and policy.in_files is not None:
            yield f"can sign in with {_describe_policy(policy.in_files)}"
        elif policy.in_files is None and policy.in_catalog is not None:
            yield f"can no longer sign in with {_describe_policy(policy.in_catalog)}"
    if change is None or change.in_files is None:
        return
    if change.in_catalog is None:
        yield "is new" if policy_changes else "is new, and needs a token to read"
    else:
        changed: Mapping[str, Any] = change.in_files
        yield from (change for field, change in _RECIPIENT_FIELDS.items() if field in changed)
        for field, unit in _LIMITS.items():
            if field in changed:
                yield f"is limited to {changed[field]:,} {unit}" if changed[field] else f"has no limit of {unit}"
        if "ends_at" in changed:
            yield f"has access until {changed['ends_at']}" if changed["ends_at"] else "has access without expiry"


def _describe_policy(policy: Mapping[str, Any]) -> str:
    return f"JWTs of {policy['issuer']} for {policy['audience']} with {policy['subject_claim']} {policy['subject']}"
