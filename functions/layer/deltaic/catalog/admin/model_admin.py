"""Administration of models and model versions; their files are not read or changed."""

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
    """Create, get, list, update and delete models and their versions. Each model stores the number of its versions."""

    def __init__(self, records: Records) -> None:
        super().__init__(records, Model)

    def create(self, share: str, schema: str, name: str, *, comment: str = "", asset_id: str | None = None) -> Model:
        """Create a model without versions; raises NotFound for the schema, AlreadyExists, InvalidParameter."""
        attributes = self._common_attributes(share, schema, name, asset_id)
        model = Model.read({**attributes, "comment": names.check_comment(comment)})
        return self._insert(model, {**model.attributes(), "versions": 0})

    def update(self, share: str, schema: str, name: str, *, comment: str | None = None) -> Model:
        """Change the comment of a model; raises NotFound, InvalidParameter."""
        assign = checked(CHECKED, {"comment": comment})
        return self._change(share, schema, name, lambda _: assign)

    def delete(self, share: str, schema: str, name: str, *, force: bool = False, resume: bool = False) -> Model:
        """Delete a model, including its versions if `force` is set; raises NotFound, or Conflict for versions.

        After a forced deletion has begun, no version can be added. If it is interrupted, repeat it. With `resume`, only
        finishes a deletion that has begun, and deletes no new model with this name.
        """
        key, missing = self._key(share, schema, name), self._missing(share, schema, name)
        model = Model.read(self._records.get_any(key, missing, resume=resume))
        try:
            if force:
                self._records.transact([self._records.update(key, assign={"state": DELETING}, expect={"id": model.id})])
                for version in tuple(self._versions(model)):
                    self._remove_version(model, version)
            self._records.transact(self._removal(model, {"versions": 0}))
        except ConditionFailed as failed:
            count = (failed.item or {}).get("versions", 0)
            if failed.index == 0 and count:
                raise Conflict(f"model '{model.title}' has {count} version(s): remove them, or use --force") from None
            raise NotFound(missing) from None  # deleted by another process at the same time
        return model

    def remove_all(self, share: str, schema: str) -> None:
        """Delete every model of a schema whose deletion has begun."""
        for item in tuple(self._records.all(keys.in_schema(Model.kind, share, schema))):
            self.delete(share, schema, item["name"], force=True)

    def add_version(  # noqa: PLR0913 -- the attributes of a version
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
        """Add a version to a model; raises NotFound for the model or the storage, AlreadyExists, InvalidParameter."""
        if not 1 <= version <= _LATEST:
            raise InvalidParameter(f"{version} is not a valid model version: write a number from 1 to {_LATEST}")
        model = self.get(share, schema, name)
        entry = ModelVersion.read({
            **{attribute: getattr(model, attribute) for attribute in ("name", "schema_name", "share", "share_id")},
            "id": str(uuid4()),
            "version": version,
            **checked(CHECKED, {"location": location, **settings}),
            **(facts or {}),
            "created_at": now(),
        })  # fmt: skip
        count_version = self._records.update(
            self._key(share, schema, name), add={"versions": 1}, expect={"id": model.id, "state": ABSENT}
        )
        key = keys.model_version(model.share, model.id, version)
        self._store(key, entry, entry.attributes(), count_version, f"model '{model.title}'")
        return entry

    def version(self, share: str, schema: str, name: str, version: int) -> ModelVersion:
        """Return one version of a model; raises NotFound."""
        model = self.get(share, schema, name)
        key = keys.model_version(model.share, model.id, version)
        return ModelVersion.read(self._records.get_any(key, _missing_version(model, version)))

    def versions(self, share: str, schema: str, name: str) -> Iterator[ModelVersion]:
        """Yield the versions of a model, in ascending order of their numbers; raises NotFound."""
        return self._versions(self.get(share, schema, name))

    def update_version(
        self, share: str, schema: str, name: str, version: int, **changes: Unpack[FolderChanges]
    ) -> ModelVersion:
        """Change the given settings of a model version and keep the others; raises NotFound, InvalidParameter."""
        model = self.get(share, schema, name)
        key, missing = keys.model_version(model.share, model.id, version), _missing_version(model, version)
        assign = {**checked(CHECKED, changes), **changes.get("facts", {})}
        return ModelVersion.read(self._change_item(key, missing, ModelVersion, lambda _: assign))

    def remove_version(self, share: str, schema: str, name: str, version: int) -> ModelVersion:
        """Delete the entry of a model version but not its files; raises NotFound."""
        while True:
            model = self.get(share, schema, name)
            entry = self.version(share, schema, name, version)
            if self._remove_version(model, entry):
                return entry

    def _versions(self, model: Model) -> Iterator[ModelVersion]:
        return map(ModelVersion.read, self._records.all(keys.model_versions(model.share, model.id)))

    def _remove_version(self, model: Model, entry: ModelVersion) -> bool:
        return self._records.attempt([
            self._records.delete(keys.model_version(model.share, model.id, entry.version), {"id": entry.id}),
            self._records.update(self._key(model.share, model.schema_name, model.name), add={"versions": -1}),
            *self._records.count_storage_use(entry.storage, -1),
        ])  # fmt: skip


def _missing_version(model: Model, version: int) -> str:
    return f"version {version} of model '{model.title}' not found"
