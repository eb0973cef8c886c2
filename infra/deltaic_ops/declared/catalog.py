"""A catalog as a declaration."""

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Recipient
from deltaic.errors import InvalidParameter
from deltaic.partition_filters.properties import value_of
from pydantic import BaseModel, ValidationError

from deltaic_ops.declared import model
from deltaic_ops.declared.entries import Key, entries

_Part = TypeVar("_Part", bound=BaseModel)


Dying = Collection[tuple[str, tuple[str, ...]]]
"""Kinds and paths of what is being deleted."""


def declaration_of(
    admin: CatalogAdmin, tell: Callable[[str], object] = str, beside: model.Declaration | None = None
) -> model.Declaration:
    """Read a whole catalog, without what is being deleted; what changes meanwhile may be in it or not.

    Of the tables that a followed source brought those alone that the files name which it is put `beside`.
    `tell` is told what is read next. Raises InvalidParameter for an entry that no file can say.
    """
    dying = set(admin.unfinished())
    named = {one.key for one in entries(beside)} if beside else set()
    shares, recipients = {}, {}
    for share in list(admin.shares.list()):
        tell(f"share {share.name}")
        shares[share.name] = _taken(model.ShareOf, share, schemas=_schemas(admin, share.name, dying, named))
    policies: dict[str, list[model.PolicyOf]] = defaultdict(list)
    for policy in sorted(admin.federation.of_all(), key=lambda one: (one.created_at, one.id)):
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
            f"'{what}' stands in the catalog as no file can say it ({why}): correct it by its command"
        ) from None
