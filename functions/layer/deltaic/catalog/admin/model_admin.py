"""The entries of models and of their versions. Their files are never touched."""

from collections.abc import Iterator
from typing import Final, Unpack
from uuid import uuid4

from deltaic.catalog import keys
from deltaic.catalog.admin.entry_admin import CHECKED, EntryAdmin, Facts, FolderChanges, FolderSettings
from deltaic.catalog.admin.records import DELETING, Records, checked
from deltaic.catalog.asset_items import Model, ModelVersion
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.items import now
from deltaic.catalog.writes import ABSENT
from deltaic.errors import Conflict, InvalidParameter, NotFound
from deltaic.protocol import names

_LATEST: Final = 2**63 - 1


class ModelAdmin(EntryAdmin[Model]):
    """Creates, gets, lists, updates and deletes models and their versions. A model counts its versions."""

    def __init__(self, records: Records) -> None:
        super().__init__(records, Model)

    def create(self, share: str, schema: str, name: str, *, comment: str = "", asset_id: str | None = None) -> Model:
        """Make a model without versions; raises NotFound for the schema, AlreadyExists, InvalidParameter."""
        named = self._named(share, schema, name, asset_id)
        model = Model.read({**named, "comment": names.check_comment(comment)})
        return self._enter(model, {**model.attributes(), "versions": 0})

    def update(self, share: str, schema: str, name: str, *, comment: str | None = None) -> Model:
        """Change the comment; raises NotFound, InvalidParameter."""
        assign = checked(CHECKED, {"comment": comment})
        return self._change(share, schema, name, lambda _: assign)

    def delete(self, share: str, schema: str, name: str, *, force: bool = False, resume: bool = False) -> Model:
        """Delete a model, with versions only by force, and them with it; raises NotFound, Conflict.

        `begun` as for shares.

        From the first step of a forced deletion on no version can be added. What was interrupted is finished by doing
        it again.
        """
        key, missing = self._key(share, schema, name), self._missing(share, schema, name)
        found = Model.read(self._records.existing(key, missing, resume=resume))
        try:
            if force:
                self._records.transact([self._records.update(key, assign={"state": DELETING}, expect={"id": found.id})])
                for version in tuple(self._versions(found)):
                    self._remove_version(found, version)
            self._records.transact(self._leave(found, {"versions": 0}))
        except ConditionFailed as failed:
            left = (failed.item or {}).get("versions", 0)
            if failed.index == 0 and left:
                raise Conflict(f"model '{found.title}' has {left} version(s): remove them first, or force it") from None
            raise NotFound(missing) from None  # somebody else deleted it at the same moment
        return found

    def remove_all(self, share: str, schema: str) -> None:
        """Delete every model of a schema in which no more can be made."""
        for item in tuple(self._records.all(keys.in_schema(Model.kind, share, schema))):
            self.delete(share, schema, item["name"], force=True)

    def add_version(  # noqa: PLR0913 -- what a version's entry holds
        self,
        share: str,
        schema: str,
        name: str,
        version: int,
        location: str,
        *,
        facts: Facts | None = None,
        **settings: Unpack[FolderSettings],
    ) -> ModelVersion:
        """Add a version; raises NotFound for the model or the storage, AlreadyExists, InvalidParameter."""
        if not 1 <= version <= _LATEST:
            raise InvalidParameter(f"a version is a number from 1 on, and not {version}")
        model = self.get(share, schema, name)
        made = ModelVersion.read({
            **{kept: getattr(model, kept) for kept in ("name", "schema_name", "share", "share_id")},
            "id": str(uuid4()),
            "version": version,
            **checked(CHECKED, {"location": location, **settings}),
            **(facts or {}),
            "created_at": now(),
        })  # fmt: skip
        counted = self._records.update(
            self._key(share, schema, name), add={"versions": 1}, expect={"id": model.id, "state": ABSENT}
        )
        key = keys.model_version(model.share, model.id, version)
        self._store(key, made, made.attributes(), counted, f"model '{model.title}'")
        return made

    def version(self, share: str, schema: str, name: str, version: int) -> ModelVersion:
        """Return a version; raises NotFound."""
        model = self.get(share, schema, name)
        key = keys.model_version(model.share, model.id, version)
        return ModelVersion.read(self._records.existing(key, _missing_version(model, version)))

    def versions(self, share: str, schema: str, name: str) -> Iterator[ModelVersion]:
        """Yield the versions of a model, by their numbers; raises NotFound."""
        return self._versions(self.get(share, schema, name))

    def update_version(
        self, share: str, schema: str, name: str, version: int, **changes: Unpack[FolderChanges]
    ) -> ModelVersion:
        """Change what is given of a version and keep the rest, the id above all; raises NotFound, InvalidParameter."""
        model = self.get(share, schema, name)
        key, missing = keys.model_version(model.share, model.id, version), _missing_version(model, version)
        assign = {**checked(CHECKED, changes), **changes.get("facts", {})}
        return ModelVersion.read(self._changed(key, missing, ModelVersion, lambda _: assign))

    def remove_version(self, share: str, schema: str, name: str, version: int) -> ModelVersion:
        """Remove a version's entry, not the files; raises NotFound."""
        while True:
            model = self.get(share, schema, name)
            found = self.version(share, schema, name, version)
            if self._remove_version(model, found):
                return found

    def _versions(self, model: Model) -> Iterator[ModelVersion]:
        return map(ModelVersion.read, self._records.all(keys.model_versions(model.share, model.id)))

    def _remove_version(self, model: Model, found: ModelVersion) -> bool:
        return self._records.attempt([
            self._records.delete(keys.model_version(model.share, model.id, found.version), {"id": found.id}),
            self._records.update(self._key(model.share, model.schema_name, model.name), add={"versions": -1}),
            *self._records.uses(found.storage, -1),
        ])  # fmt: skip


def _missing_version(model: Model, version: int) -> str:
    return f"version {version} of model '{model.title}' not found"
