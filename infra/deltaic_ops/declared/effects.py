"""Describe what differences mean for recipients: what they gain, lose, or see differently."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from deltaic.partition_filters import parse

from deltaic_ops.declared.declaration import Declaration, GrantOf, texts_of
from deltaic_ops.declared.differences import Difference, Entry, entries
from deltaic_ops.inspection.filter_checks import missing_for_filters

_parsed = lru_cache(maxsize=4096)(parse)
"""Cached, because the same filters are parsed for each recipient."""

_SHARED = ("table", "view", "volume", "skill", "version")
FOLLOWED = "followed schema"
"""Kind of a schema that follows a source, with all tables of the source."""

_NAMED = 5
"""Number of names that a list shows."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """Changes that are the same for several recipients."""

    recipients: tuple[str, ...]
    changes: tuple[str, ...]
    """Predicates of sentences about a recipient, such as `loses 3 tables: ...`."""

    def __str__(self) -> str:
        who = self.recipients
        whom = who[0] if len(who) == 1 else f"{len(who)} recipients ({listed(who)}): each"
        return f"{whom} {'; '.join(self.changes)}"


def meanings(found: Iterable[Difference], files: Declaration, catalog: Declaration) -> list[Meaning]:
    """Return what changes for recipients if the catalog is changed to match the files, with grants as of now."""
    changed = list(found)
    before, after = _Side(catalog), _Side(files)
    alike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    shares = {one.path[0].lower() for one in changed if one.kind in {"schema", *_SHARED}}
    moved = {one.path[0].lower() for one in changed if one.kind == "storage" and one.in_files and one.in_catalog}
    shares |= {
        share
        for share, some in after.shared.items()
        if any(one.fields.get("storage") in moved for one in some.values())
    }
    own = {one.path[0].lower(): one for one in changed if one.kind == "recipient"}
    keys: defaultdict[str, list[Difference]] = defaultdict(list)
    for one in changed:
        if one.kind == "policy":
            keys[one.path[0].lower()].append(one)
    touched = {*own, *(one.path[0].lower() for one in changed if one.kind == "grant")}
    for key in before.recipients.keys() | after.recipients.keys():
        held = before.held(key).keys() | after.held(key).keys()
        looked_at = held if key in touched else held & shares
        changes = [change for share in sorted(looked_at) for change in _of_share(share, key, before, after, moved)]
        if told := (*_gathered(changes), *_of_recipient(own.get(key), keys[key])):
            alike[told].append(after.recipients.get(key) or before.recipients[key])
    return sorted((Meaning(tuple(sorted(who)), told) for told, who in alike.items()), key=lambda one: one.recipients)


def listed(names: Iterable[str]) -> str:
    """Return names separated by commas; if there are many, only the first ones."""
    some = list(names)
    return ", ".join(some if len(some) <= _NAMED else [*some[:_NAMED], f"and {len(some) - _NAMED} more"])


class _Side:
    def __init__(self, declaration: Declaration) -> None:
        now = datetime.now(UTC)
        self.shared: defaultdict[str, dict[tuple[str, str], Entry]] = defaultdict(dict)
        for entry in entries(declaration):
            if entry.kind in _SHARED:
                self.shared[entry.path[0].lower()][entry.kind, entry.name.lower()] = entry
            elif entry.fields.get("follow"):
                followed = Entry(FOLLOWED, entry.path, entry.fields["follow"])
                self.shared[entry.path[0].lower()][FOLLOWED, entry.name.lower()] = followed
        self.recipients = {name.lower(): name for name in declaration.recipients}
        self._properties = {name.lower(): texts_of(one.properties) for name, one in declaration.recipients.items()}
        self._held = {
            name.lower(): {
                share.lower(): grant
                for share, grant in person.grants.items()
                if grant.ends_at is None or grant.ends_at > now
            }
            for name, person in declaration.recipients.items()
        }

    def held(self, recipient: str) -> Mapping[str, GrantOf]:
        """Return the grants of a recipient by lower-case share name."""
        return self._held.get(recipient, {})

    def lacking(self, share: str, recipient: str) -> Mapping[str, str]:
        """Return, by table of a share, the properties that filters need and the recipient does not have."""
        properties, held = self._properties.get(recipient, {}), self.held(recipient)
        found = {}
        for (kind, _), one in self.seen(share, recipient).items():
            texts = [one.fields["partition_filter"] if kind == "table" else "", held[share].partition_filter]
            if missing := missing_for_filters(properties, [_parsed(text) for text in texts if text]):
                found[one.name] = ", ".join(missing)
        return found

    def seen(self, share: str, recipient: str) -> Mapping[tuple[str, str], Entry]:
        """Return the entries of a share that a recipient sees; a grant with a filter shows only tables and views."""
        held = self.held(recipient)
        if share not in held:
            return {}
        return {
            key: one
            for key, one in self.shared[share].items()
            if not held[share].partition_filter or key[0] in {"table", "view", FOLLOWED}
        }


_Change = tuple[str, str, str]
"""The verb loses or gains, a kind and a name; or two empty texts and a complete predicate."""


def _of_share(share: str, recipient: str, before: _Side, after: _Side, moved: Collection[str]) -> Iterator[_Change]:
    was, will = (side.seen(share, recipient) for side in (before, after))
    for verb, some, others in (("loses", was, will), ("gains", will, was)):
        yield from ((verb, entry.kind, entry.name) for key, entry in some.items() if key not in others)
    grants = [side.held(recipient).get(share) for side in (before, after)]
    if grants[0] and grants[1] and grants[0].ends_at != grants[1].ends_at:
        ends = grants[1].ends_at
        yield "", "", f"holds {share} {f'until {ends:%Y-%m-%d %H:%M} UTC' if ends else 'without an end'}"
    lacking = [side.lacking(share, recipient) for side in (before, after)]
    new = {name: missing for name, missing in lacking[1].items() if lacking[0].get(name) != missing}
    for missing in sorted({*new.values()}):
        tables = listed(name for name, lacked in new.items() if lacked == missing)
        yield "", "", f"sees no rows of {tables}: missing {missing}"
    filters = [grant.partition_filter if grant else "" for grant in grants]
    for key, entry in will.items():
        if key in was:
            yield from (("", "", change) for change in _otherwise(was[key], entry, *filters))
            if entry.fields.get("storage") in moved:
                yield "", "", f"reads {entry.name} from another location"


def _gathered(changes: Iterable[_Change]) -> Iterator[str]:
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    sentences = []
    for verb, kind, told in changes:
        if verb:
            names[verb, kind].append(told)
        else:
            sentences.append(told)
    for (verb, kind), some in names.items():
        what = f"{kind} of a model" if kind == "version" and len(some) == 1 else kind
        what = "versions of models" if kind == "version" and len(some) > 1 else what
        plural = "" if len(some) == 1 or kind == "version" else "s"
        yield f"{verb} {len(some)} {what}{plural}: {listed(some)}"
    yield from sentences


def _otherwise(was: Entry, will: Entry, filter_was: str, filter_will: str) -> Iterator[str]:
    old, new, name = was.fields, will.fields, will.name
    rows = [{text for text in (fields.get("partition_filter", ""), own) if text}
            for fields, own in ((old, filter_was), (new, filter_will))]  # fmt: skip
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
        yield f"sees versions of {name} from {new['start_version']} on"
    if old.get("exclude") != new.get("exclude"):
        yield f"sees other tables of the source that {name} follows"
    if old.get("sql") != new.get("sql"):
        yield f"sees {name} with other SQL, and nothing until it is refreshed"
    places = ("source", "storage") if will.kind == FOLLOWED else _PLACES
    if any(old.get(field) != new.get(field) for field in places):
        yield f"reads {name} from another location"
    modes = [set(fields.get("access_modes", ())) for fields in (old, new)]
    for some, may in ((modes[1] - modes[0], "may read"), (modes[0] - modes[1], "may no longer read")):
        yield from (f"{may} {name} by {_MODES[mode]}" for mode in sorted(some))
    if old.get("iceberg") != new.get("iceberg"):
        how = f"may read {name} by Iceberg clients ({new['iceberg']})"
        yield how if new["iceberg"] else f"may no longer read {name} by Iceberg clients"


_PLACES = ("location", "storage", "auxiliary_locations", "format", "metadata_location")
_MODES = {"dir": "credentials for its folder", "url": "signed URLs"}
_OF_RECIPIENT: Mapping[str, str] = {
    "properties": "has other properties, with which filters and views select rows",
    "addresses": "has other allowed addresses",
}
_LIMITS: Mapping[str, str] = {"requests_per_minute": "requests a minute", "bytes_per_day": "bytes a day"}


def _of_recipient(own: Difference | None, policies: Iterable[Difference]) -> Iterator[str]:
    some = list(policies)
    if own is not None and own.in_files is None:
        yield "is deleted, with all its tokens and policies"
        return
    for one in some:
        if one.in_catalog is None and one.in_files is not None:
            yield f"can sign in with {_jwts(one.in_files)}"
        elif one.in_files is None and one.in_catalog is not None:
            yield f"can no longer sign in with {_jwts(one.in_catalog)}"
    if own is None or own.in_files is None:
        return
    if own.in_catalog is None:
        yield "is new" if some else "is new, and needs a token to read"
    else:
        changed: Mapping[str, Any] = own.in_files
        yield from (change for field, change in _OF_RECIPIENT.items() if field in changed)
        for field, unit in _LIMITS.items():
            if field in changed:
                yield f"is limited to {changed[field]:,} {unit}" if changed[field] else f"has no limit of {unit}"
        if "ends_at" in changed:
            yield f"has access until {changed['ends_at']}" if changed["ends_at"] else "has access without an end"


def _jwts(policy: Mapping[str, Any]) -> str:
    return f"JWTs of {policy['issuer']} for {policy['audience']} whose {policy['subject_claim']} is {policy['subject']}"
