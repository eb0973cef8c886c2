"""Read the catalog as a declaration, and compare it with the declaration in files, entry by entry."""

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

from deltaic_ops.declared import declaration
from deltaic_ops.declared.declaration import Declaration, PolicyOf

CHILD_GROUPS: Mapping[str, Mapping[str, str]] = {
    "": {"storages": "storage", "shares": "share", "recipients": "recipient"},
    "share": {"schemas": "schema"},
    "schema": {"tables": "table", "views": "view", "volumes": "volume", "skills": "skill", "models": "model"},
    "model": {"versions": "version"},
    "recipient": {"policies": "policy", "grants": "grant"},
}
"""For each kind of entry: its fields that contain other entries, each with the kind of these entries."""

_NAME_FIELDS = frozenset({("table", "hidden_columns"), ("view", "source")})
"""Fields (kind, name) with names of columns or tables, which are compared ignoring case."""

Key = tuple[str, tuple[str, ...]]
"""Identity of an entry: kind, and path in lower case, because names are compared ignoring case."""


def name_of(kind: str, path: tuple[str, ...]) -> str:
    """Return the full name of an entry for messages, such as share.schema.table."""
    if kind == "version":
        return f"{'.'.join(path[:-1])} {path[-1]}"
    return (" " if kind in {"grant", "policy"} else ".").join(path)


@dataclass(frozen=True, slots=True)
class _Named:
    kind: str
    path: tuple[str, ...]
    """Names of the entry's parents, then its own; recipient and share of a grant; recipient and id of a policy."""

    @property
    def name(self) -> str:
        return name_of(self.kind, self.path)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def root(self) -> str:
        """Lower-case name of the share, recipient or storage that contains the entry."""
        return self.path[0].lower()

    @property
    def key(self) -> Key:
        return self.kind, tuple(part.lower() for part in self.path)


@dataclass(frozen=True, slots=True)
class DeclaredEntry(_Named):
    """An entry (share, table, grant etc.) with its fields, read from the catalog or from files."""

    fields: Mapping[str, Any]
    """All fields, including those with default values."""


@dataclass(frozen=True, slots=True)
class CatalogDifference(_Named):
    """An entry that differs between files and catalog, or is in only one of them."""

    in_files: Mapping[str, Any] | None
    in_catalog: Mapping[str, Any] | None
    """Differing fields, with other values `in_files`; None if the entry is absent, then the other has all fields."""


def entries(catalog: Declaration) -> Iterator[DeclaredEntry]:
    """Yield all entries of a declaration, each after its parent."""
    yield from _entries("", (), catalog.model_dump(mode="json"))


def _entries(kind: str, path: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[DeclaredEntry]:
    groups = CHILD_GROUPS.get(kind, {})
    if kind:
        yield DeclaredEntry(kind, path, {field: value for field, value in values.items() if field not in groups})
    for group, inner in groups.items():
        children = values[group]
        if inner == "policy":
            children = {PolicyOf.model_validate(policy).id: policy for policy in children}
        for name, value in children.items():
            yield from _entries(inner, (*path, str(name)), value)


def differences(files: Declaration, catalog: Declaration) -> list[CatalogDifference]:
    """Return differing entries in the order of the files, then the entries that only the catalog has."""
    declared = {entry.key: entry for entry in entries(files)}
    existing = {entry.key: entry for entry in entries(catalog)}
    result = []
    for key, entry in declared.items():
        if key not in existing:
            result.append(CatalogDifference(entry.kind, entry.path, entry.fields, None))
            continue
        new, old = entry.fields, existing[key].fields
        changed = [name for name in new if not _are_equal((entry.kind, name), new[name], old[name])]
        if changed:
            in_files, in_catalog = ({name: fields[name] for name in changed} for fields in (new, old))
            result.append(CatalogDifference(entry.kind, entry.path, in_files, in_catalog))
    undeclared = (entry for key, entry in existing.items() if key not in declared)
    return result + [CatalogDifference(entry.kind, entry.path, None, entry.fields) for entry in undeclared]


def _are_equal(field: tuple[str, str], new: Any, old: Any) -> bool:
    return bool(new == old or (field in _NAME_FIELDS and str(new).lower() == str(old).lower()))


def repeated_policies(files: Declaration) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield path and error message for each federation policy that the files already declare further up."""
    first: dict[str, str] = {}
    for name, recipient in files.recipients.items():
        for number, policy in enumerate(recipient.policies):
            if policy.id in first:
                yield ("recipients", name, "policies", number), f"repeats a policy of {first[policy.id]}"
            first.setdefault(policy.id, name)


def unknown_names(files: Declaration) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and error message for each reference to a share or storage that the files do not declare."""
    known_names: dict[str, dict[str, str]] = {"share": {}, "storage": {}}
    all_entries = list(entries(files))
    for entry in all_entries:
        if entry.kind in known_names:
            known_names[entry.kind][entry.name.lower()] = entry.name
    for entry in all_entries:
        if entry.kind == "grant":
            references = [("share", entry.path[1], "")]
        else:
            references = [("storage", entry.fields["storage"], "storage")] if entry.kind in _KINDS_IN_STORAGES else []
            if follow := entry.fields.get("follow"):
                references.append(("storage", follow["storage"], "follow"))
        for kind, name, field in references:
            if name and name.lower() not in known_names[kind]:
                path = tuple(part for pair in zip(_groups(entry.kind), entry.path, strict=True) for part in pair)
                message = f"names a {kind} that is not in these files{did_you_mean(name, known_names[kind].values())}"
                yield (*path, field) if field else path, message


_KINDS_IN_STORAGES = frozenset({"table", "volume", "skill", "version"})


def _groups(kind: str) -> tuple[str, ...]:
    groups = ((parent, group) for parent, children in CHILD_GROUPS.items() for group in children)
    parent, group = next((parent, group) for parent, group in groups if CHILD_GROUPS[parent][group] == kind)
    return (*(_groups(parent) if parent else ()), group)


_Model = TypeVar("_Model", bound=BaseModel)
Deleting = Collection[tuple[str, tuple[str, ...]]]
"""Kinds and paths of entries whose deletion is not finished."""


def declaration_of(
    admin: CatalogAdmin, report_progress: Callable[[str], object] = str, files: Declaration | None = None
) -> Declaration:
    """Read the catalog as a declaration, without entries that are being deleted.

    Can miss concurrent changes. Tables of followed sources are included only if `files` declares them. Calls
    `report_progress` with the next share or recipient. Raises InvalidParameter for entries that no file can express.
    """
    deleting = set(admin.unfinished_deletions())
    in_files = {entry.key for entry in entries(files)} if files else set()
    shares, recipients = {}, {}
    for share in list(admin.shares.list()):
        report_progress(f"share {share.name}")
        shares[share.name] = _declared(
            declaration.ShareOf, share, schemas=_schemas(admin, share.name, deleting, in_files)
        )
    policies: dict[str, list[declaration.PolicyOf]] = defaultdict(list)
    for policy in sorted(admin.federation.list_all(), key=lambda policy: (policy.created_at, policy.id)):
        policies[policy.recipient_id].append(_declared(declaration.PolicyOf, policy))
    for recipient in list(admin.recipients.list()):
        report_progress(f"recipient {recipient.name}")
        recipients[recipient.name] = _recipient(admin, recipient, deleting, policies[recipient.id])
    storages = {storage.name: _declared(declaration.StorageOf, storage) for storage in admin.storages.list()}
    return Declaration(storages=storages, shares=shares, recipients=recipients)


def _schemas(
    admin: CatalogAdmin, share: str, deleting: Deleting, in_files: Collection[Key]
) -> dict[str, declaration.SchemaOf]:
    contents: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    follows = {follow.schema_name: _declared(declaration.FollowOf, follow) for follow in admin.follows.list(share)}
    tables = {(table.schema_name, table.name): table for table in admin.tables.list(share)}
    for (schema, name), table in tables.items():
        key = "table", (share.lower(), schema.lower(), name.lower())
        if table.view_properties is None and (key in in_files or not (table.followed and schema in follows)):
            contents[schema]["tables"][name] = _declared(declaration.TableOf, table)
    for view in admin.views.list(share):
        if entry := tables.get((view.schema_name, view.name)):
            fields = {"location": entry.location, "history": entry.history}
            contents[view.schema_name]["views"][view.name] = _declared(declaration.ViewOf, view, **fields)
    for group, folders in (("volumes", admin.volumes.list(share)), ("skills", admin.skills.list(share))):
        for folder in folders:
            contents[folder.schema_name][group][folder.name] = _declared(declaration.FolderOf, folder)
    for model in admin.models.list(share):
        path = (model.share, model.schema_name, model.name)
        if ("model", path) in deleting:
            continue
        versions = {
            version.version: _declared(declaration.VersionOf, version) for version in admin.models.versions(*path)
        }
        contents[model.schema_name]["models"][model.name] = declaration.ModelOf(
            comment=model.comment, versions=versions
        )
    return {
        entry.name: _declared(declaration.SchemaOf, entry, follow=follows.get(entry.name), **contents[entry.name])
        for entry in admin.schemas.list(share)
        if ("schema", (share, entry.name)) not in deleting
    }


def _recipient(
    admin: CatalogAdmin, recipient: Recipient, deleting: Deleting, policies: list[declaration.PolicyOf]
) -> declaration.RecipientOf:
    values = {name: value_of(text) for name, text in recipient.properties.items()}
    properties = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    all_grants = admin.grants.of_recipient(recipient.name)
    remaining = (grant for grant in all_grants if ("share", (grant.share,)) not in deleting)
    grants = {grant.share: _declared(declaration.GrantOf, grant) for grant in remaining}
    return _declared(declaration.RecipientOf, recipient, properties=properties, policies=policies, grants=grants)


def _declared(kind: type[_Model], item: object, **extra: object) -> _Model:
    values = {name: getattr(item, name) for name in kind.model_fields if hasattr(item, name)}
    fields = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    try:
        return kind.model_validate(fields | extra)
    except ValidationError as error:
        name, first = getattr(item, "title", getattr(item, "name", "")), error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise InvalidParameter(
            f"cannot write entry '{name}' of the catalog to a file ({reason}): update it with its command"
        ) from None
