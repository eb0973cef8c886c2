"""The catalog as a declaration, a declaration as entries by name, and what two of them differ in."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Recipient
from deltaic.errors import InvalidParameter
from deltaic.partition_filters.properties import value_of
from deltaic_terminal.nearest import did_you_mean
from pydantic import BaseModel, ValidationError

from deltaic_ops.declared import declaration as model
from deltaic_ops.declared.declaration import Declaration, PolicyOf

WITHIN: Mapping[str, Mapping[str, str]] = {
    "": {"storages": "storage", "shares": "share", "recipients": "recipient"},
    "share": {"schemas": "schema"},
    "schema": {"tables": "table", "views": "view", "volumes": "volume", "skills": "skill", "models": "model"},
    "model": {"versions": "version"},
    "recipient": {"policies": "policy", "grants": "grant"},
}
"""Fields that contain entries, by the kind of the containing entry."""

_AS_NAMES = frozenset({("table", "hidden_columns"), ("view", "source")})
"""Fields that are compared without regard to case, because the catalog keeps the spelling of the named object."""

Key = tuple[str, tuple[str, ...]]
"""Kind and lower-case path of an entry; names are compared without regard to case."""


def name_of(kind: str, path: tuple[str, ...]) -> str:
    """Return the full name of an entry, such as share.schema.table."""
    if kind == "version":
        return f"{'.'.join(path[:-1])} {path[-1]}"
    return (" " if kind in {"grant", "policy"} else ".").join(path)


@dataclass(frozen=True, slots=True)
class _Named:
    kind: str
    path: tuple[str, ...]
    """Names of its parents and its own name; for a grant its recipient and share, for a policy its recipient and id."""

    @property
    def name(self) -> str:
        """The full name, such as share.schema.table."""
        return name_of(self.kind, self.path)

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> Key:
        """Kind and lower-case path, to find the entry."""
        return self.kind, tuple(part.lower() for part in self.path)


@dataclass(frozen=True, slots=True)
class Entry(_Named):
    """An entry of the catalog, or of the files."""

    fields: Mapping[str, Any]
    """All fields, including those with default values."""


@dataclass(frozen=True, slots=True)
class Difference(_Named):
    """An entry that differs between files and catalog."""

    in_files: Mapping[str, Any] | None
    in_catalog: Mapping[str, Any] | None
    """The differing fields; all fields if the other side, which is then None, has no such entry."""


def entries(declaration: Declaration) -> Iterator[Entry]:
    """Yield all entries, each after its parent."""
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
    """Return differences in the order of the files, followed by entries that only the catalog has."""
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
    """Yield the path of each policy that repeats an earlier one: a JWT must identify one recipient."""
    first: dict[str, str] = {}
    for name, person in declaration.recipients.items():
        for number, policy in enumerate(person.policies):
            if policy.id in first:
                yield ("recipients", name, "policies", number), f"repeats a policy of {first[policy.id]}"
            first.setdefault(policy.id, name)


def unknown_names(declaration: Declaration) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each field with a name that is not in the files, and a message."""
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
                message = f"names a {kind} that is not in these files{did_you_mean(name, there[kind].values())}"
                yield (*way, field) if field else way, message


_IN_STORAGES = frozenset({"table", "volume", "skill", "version"})
"""Kinds that can be in a storage."""


def _groups(kind: str) -> tuple[str, ...]:
    above, group = next((above, group) for above, some in WITHIN.items() for group, one in some.items() if one == kind)
    return (*(_groups(above) if above else ()), group)


_Part = TypeVar("_Part", bound=BaseModel)


Dying = Collection[tuple[str, tuple[str, ...]]]
"""Kinds and paths of entries that are being deleted."""


def declaration_of(
    admin: CatalogAdmin, tell: Callable[[str], object] = str, beside: model.Declaration | None = None
) -> model.Declaration:
    """Read the whole catalog, without entries that are being deleted; concurrent changes may be missed.

    Tables of followed sources are included only if `beside`, the files to compare with, declares them.
    Calls `tell` with the entry that is read next. Raises InvalidParameter for an entry that no file can express.
    """
    dying = set(admin.unfinished_deletions())
    named = {one.key for one in entries(beside)} if beside else set()
    shares, recipients = {}, {}
    for share in list(admin.shares.list()):
        tell(f"share {share.name}")
        shares[share.name] = _taken(model.ShareOf, share, schemas=_schemas(admin, share.name, dying, named))
    policies: dict[str, list[model.PolicyOf]] = defaultdict(list)
    for policy in sorted(admin.federation.list_all(), key=lambda one: (one.created_at, one.id)):
        policies[policy.recipient_id].append(_taken(model.PolicyOf, policy))
    for person in list(admin.recipients.list()):
        tell(f"recipient {person.name}")
        recipients[person.name] = _recipient(admin, person, dying, policies[person.id])
    storages = {one.name: _taken(model.StorageOf, one) for one in admin.storages.list()}
    return model.Declaration(storages=storages, shares=shares, recipients=recipients)


def _schemas(admin: CatalogAdmin, share: str, dying: Dying, told: Collection[Key]) -> dict[str, model.SchemaOf]:
    held: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    follows = {one.schema_name: _taken(model.FollowOf, one) for one in admin.follows.list(share)}
    tables = {(one.schema_name, one.name): one for one in admin.tables.list(share)}
    for (schema, name), table in tables.items():
        key = "table", (share.lower(), schema.lower(), name.lower())
        if table.view_properties is None and (key in told or not (table.followed and schema in follows)):
            held[schema]["tables"][name] = _taken(model.TableOf, table)
    for view in admin.views.list(share):
        if entry := tables.get((view.schema_name, view.name)):
            own = {"location": entry.location, "history": entry.history}
            held[view.schema_name]["views"][view.name] = _taken(model.ViewOf, view, **own)
    for group, folders in (("volumes", admin.volumes.list(share)), ("skills", admin.skills.list(share))):
        for one in folders:
            held[one.schema_name][group][one.name] = _taken(model.FolderOf, one)
    for named in admin.models.list(share):
        if ("model", (named.share, named.schema_name, named.name)) in dying:
            continue
        versions = {
            version.version: _taken(model.VersionOf, version)
            for version in admin.models.versions(named.share, named.schema_name, named.name)
        }
        held[named.schema_name]["models"][named.name] = model.ModelOf(comment=named.comment, versions=versions)
    return {
        one.name: _taken(model.SchemaOf, one, follow=follows.get(one.name), **held[one.name])
        for one in admin.schemas.list(share)
        if ("schema", (share, one.name)) not in dying
    }


def _recipient(
    admin: CatalogAdmin, person: Recipient, dying: Dying, policies: list[model.PolicyOf]
) -> model.RecipientOf:
    values = {name: value_of(text) for name, text in person.properties.items()}
    properties = {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}
    held = (grant for grant in admin.grants.of_recipient(person.name) if ("share", (grant.share,)) not in dying)
    grants = {grant.share: _taken(model.GrantOf, grant) for grant in held}
    return _taken(model.RecipientOf, person, properties=properties, policies=policies, grants=grants)


def _taken(kind: type[_Part], item: object, **more: object) -> _Part:
    own = {name: getattr(item, name) for name in kind.model_fields if hasattr(item, name)}
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
    try:
        return kind.model_validate(listed | more)
    except ValidationError as odd:
        what, first = getattr(item, "title", getattr(item, "name", "")), odd.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise InvalidParameter(
            f"cannot write entry '{what}' of the catalog to a file ({why}): correct it with its command"
        ) from None
