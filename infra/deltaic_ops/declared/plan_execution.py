"""Carry out the steps of a plan for `deltaic apply`, with the checks of the single commands."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.catalog_lock import LockLost
from deltaic.catalog.items import Table, View
from deltaic.catalog.restrictions import NEVER
from deltaic.errors import DeltaicError, TooManyRequests, Unavailable
from deltaic.identity.key_download import check_issuer

from deltaic_ops.declared.declaration import texts_of
from deltaic_ops.declared.differences import CatalogDifference
from deltaic_ops.declared.plan import stops_following
from deltaic_ops.declared.steps import PlanStep
from deltaic_ops.inspection.filter_checks import check_grant, unknown_bucket, validate_table
from deltaic_ops.inspection.folder_contents import is_empty, skill_facts
from deltaic_ops.inspection.shared_schema import SchemaReader
from deltaic_ops.inspection.view_checks import validate_sql

_FATAL_ERRORS = (LockLost, TooManyRequests, Unavailable)
"""Errors after which `apply` tries no more steps, because these would fail for the same reason."""

_Fields = Mapping[str, Any]


class StepFailed(Exception):
    """Error of a step that failed and would fail in another order of steps too."""

    def __init__(self, step: PlanStep, error: DeltaicError) -> None:
        super().__init__(error.message)
        self.step = step
        self.error = error


@dataclass
class PlanExecution:
    """Clients, settings and results of one run of `apply`."""

    admin: CatalogAdmin
    schemas: Callable[[], SchemaReader]
    """Returns a reader of tables and folders, which uses the operator's credentials."""

    unchecked: bool = False
    """Whether unfiltered tables and folders are shared without a check that they can be read."""

    loopback: bool = False
    """Whether issuers can have loopback URLs; only with a local AWS emulator."""

    warnings: list[str] = field(default_factory=list)
    changed_views: list[View] = field(default_factory=list)
    """Created and changed views, whose schedules must be updated too."""

    deleted_views: list[View] = field(default_factory=list)
    """Deleted views, whose schedules must be deleted too."""

    def carry_out(self, steps: Iterable[PlanStep]) -> Iterator[PlanStep]:
        """Carry out the steps, and yield each finished step; raises StepFailed.

        Changes and deletions of a phase finish before the next starts, so that no entry is granted before its filter
        is set. Failed creations are repeated at the end, because a later change can be their precondition.
        """
        postponed: list[PlanStep] = []
        for _, phase_steps in groupby(steps, lambda step: step.phase):
            for failure in (yield from self._carry_out_phase(list(phase_steps))):
                if failure.step.action != "create":
                    raise failure
                postponed.append(failure.step)
        if failures := (yield from self._carry_out_phase(postponed)):
            first, *others = failures
            self.warnings += [f"{other.step.difference.title} also failed: {other.error.message}" for other in others]
            raise first

    def _carry_out_phase(self, steps: list[PlanStep]) -> Generator[PlanStep, None, list[StepFailed]]:
        """Carry out a phase's steps, retry failed ones while any succeeds, and return the remaining failures."""
        while steps:
            failures: list[StepFailed] = []
            for step in steps:
                try:
                    self._carry_out_step(step)
                except _FATAL_ERRORS as error:
                    raise StepFailed(step, error) from error
                except DeltaicError as error:
                    failures.append(StepFailed(step, error))
                else:
                    yield step
            if len(failures) == len(steps):
                return failures
            steps = [failure.step for failure in failures]
        return []

    def _carry_out_step(self, step: PlanStep) -> None:
        before, self.warnings = self.warnings, []
        try:
            self._apply_change(step)
            before += [f"{step.difference.title}: {warning}" for warning in self.warnings]
        finally:
            self.warnings = before  # a failed step is tried again, so its warnings are dropped

    def _apply_change(self, step: PlanStep) -> None:
        change = step.difference
        if step.action == "delete":
            self._delete(change.kind, change.path)
        elif step.action == "create":
            self._create(change.kind, change.path, dict(change.in_files or {}))
        else:
            self._update(change.kind, change.path, dict(change.in_files or {}), change.in_catalog or {})

    def _delete(self, kind: str, path: tuple[str, ...]) -> None:
        admin = self.admin
        match kind:
            case "grant":
                admin.grants.revoke(*path)
            case "policy":
                admin.federation.remove(admin.recipients.get(path[0]), path[1])
            case "version":
                admin.models.remove_version(*_version(path))
            case "view":
                view = admin.views.get(*path)
                admin.views.delete(*path)
                self.deleted_views.append(view)
            case "share" | "schema" | "model":
                views = self._views_in(kind, path)
                getattr(admin, f"{kind}s").delete(*path, force=True)
                self.deleted_views += views
            case _:
                getattr(admin, f"{kind}s").delete(*path)

    def _views_in(self, kind: str, path: tuple[str, ...]) -> list[View]:
        if kind == "model":
            return []
        within = [name.lower() for name in path[1:]]
        return [view for view in self.admin.views.list(path[0]) if not within or view.schema_name.lower() in within]

    def _create(self, kind: str, path: tuple[str, ...], fields: dict[str, Any]) -> None:
        admin = self.admin
        match kind:
            case "schema":
                del fields["follow"]  # a separate step, because it shows tables
                admin.schemas.create(*path, **fields)
            case "table":
                admin.tables.create(*path, validate=self._validate_table, **fields)
            case "view":
                read = validate_sql(admin, self.schemas, fields["sql"], admin.views.source(fields["source"]))
                self.changed_views.append(admin.views.create(*path, properties=sorted(read.properties), **fields))
            case "volume" | "skill":
                facts = self._check_folder(kind, path[-1], fields["location"], fields["storage"])
                getattr(admin, f"{kind}s").create(*path, **facts, **fields)
            case "version":
                facts = {name: fields.pop(name) for name in ("run_id", "source")}
                self._check_folder(kind, "", fields["location"], fields["storage"])
                admin.models.add_version(*_version(path), facts=facts, **fields)
            case "recipient":
                properties, comment = texts_of(fields.pop("properties")), fields.pop("comment")
                limits = _address_changes({name: value for name, value in fields.items() if value}, {})
                recipient = admin.recipients.create(*path, comment=comment, properties=properties)
                if limits:
                    admin.recipients.update(recipient.name, **limits)
            case "policy":
                issuer, claim = fields.pop("issuer"), fields.pop("subject_claim")
                check_issuer(issuer, loopback=self.loopback)
                admin.federation.create(admin.recipients.get(path[0]), issuer, claim=claim, **fields)
            case "grant":
                self._check_grant(path, fields)
                ends_at = None if fields["ends_at"] is None else _parse_end(fields["ends_at"])
                admin.grants.create(*path, partition_filter=fields["partition_filter"], ends_at=ends_at)
            case _:
                getattr(admin, f"{kind}s").create(*path, **fields)

    def _update(self, kind: str, path: tuple[str, ...], fields: dict[str, Any], before: _Fields) -> None:
        admin = self.admin
        match kind:
            case "share":
                admin.shares.update(*path, **_property_changes(fields, before))
            case "schema":
                self._update_schema(path, fields, before)
            case "table":
                admin.tables.update(*path, validate=self._validate_table, followed=False, **fields)
            case "view":
                self._update_view(path, fields)
            case "volume" | "skill":
                folders = getattr(admin, f"{kind}s")
                facts = self._check_moved_folder(kind, path[-1], fields, lambda: folders.get(*path))
                folders.update(*path, **facts, **fields)
            case "version":
                facts = {name: fields.pop(name) for name in ("run_id", "source") if name in fields}
                self._check_moved_folder(kind, "", fields, lambda: admin.models.version(*_version(path)))
                admin.models.update_version(*_version(path), facts=facts, **fields)
            case "recipient":
                if "properties" in fields:
                    fields["properties"] = texts_of(fields["properties"])
                admin.recipients.update(*path, **_address_changes(_property_changes(fields, before), before))
            case "policy":
                admin.federation.update(admin.recipients.get(path[0]), path[1], **fields)
            case "grant":
                self._check_grant(path, fields)
                admin.grants.update(*path, **_address_changes(fields, {}))
            case _:
                getattr(admin, f"{kind}s").update(*path, **fields)

    def _update_schema(self, path: tuple[str, ...], fields: dict[str, Any], before: _Fields) -> None:
        change = CatalogDifference("schema", path, dict(fields), before)
        follow = fields.pop("follow", None)
        self.admin.schemas.update(*path, **fields)
        if stops_following(change):
            self.admin.follows.delete(*path)
            share, schema = path
            for table in list(self.admin.tables.list(share, schema)):
                if table.followed:
                    self.admin.tables.delete(table.share, table.schema_name, table.name)
        if follow:
            self.admin.follows.put(*path, **follow)

    def _update_view(self, path: tuple[str, ...], fields: dict[str, Any]) -> None:
        views, history = self.admin.views, fields.pop("history", None)
        if "sql" in fields:
            read = validate_sql(self.admin, self.schemas, fields["sql"], views.source(views.get(*path).source))
            fields["properties"] = sorted(read.properties)
        if history is False:  # remove history before other changes, and add it after them
            self.admin.tables.update(*path, history=False)
        self.changed_views.append(views.update(*path, **fields))
        if history:
            self.admin.tables.update(*path, history=True)

    def _validate_table(self, table: Table, before: Table | None) -> Table:
        stored, warnings = validate_table(self.admin, self.schemas, table, before, unchecked=self.unchecked)
        self.warnings += warnings
        return stored

    def _check_moved_folder(self, kind: str, name: str, fields: _Fields, before: Callable[[], Any]) -> dict[str, Any]:
        if not fields.keys() & {"location", "storage"}:
            return {}
        folder = before()
        location, storage = fields.get("location", folder.location), fields.get("storage", folder.storage)
        return self._check_folder(kind, name, location, storage)

    def _check_folder(self, kind: str, name: str, location: str, storage: str) -> dict[str, Any]:
        """Check a shared folder and add warnings; return {"facts": ...} (from SKILL.md) for a skill, otherwise {}."""
        facts: dict[str, Any] = {}
        if kind == "skill":
            facts["facts"], warnings = skill_facts(self.schemas(), name, location, storage)
            self.warnings += warnings
        self.warnings += unknown_bucket(self.admin, location)
        if not self.unchecked and is_empty(self.schemas(), location, storage):
            self.warnings.append(f"{location} is empty")
        return facts

    def _check_grant(self, path: tuple[str, ...], fields: _Fields) -> None:
        if row_filter := fields.get("partition_filter"):
            check_grant(row_filter, self.admin.tables.list(path[1]), self.schemas())


def _version(path: tuple[str, ...]) -> tuple[str, str, str, int]:
    share, schema, model, version = path
    return share, schema, model, int(version)


def _property_changes(fields: dict[str, Any], before: _Fields) -> dict[str, Any]:
    """Replace a recipient's field `properties` by the arguments `add_properties` and `remove_properties`."""
    if "properties" not in fields:
        return fields
    properties = fields.pop("properties")
    removed = tuple(name for name in before["properties"] if name not in properties)
    return {**fields, "add_properties": properties, "remove_properties": removed}


def _address_changes(fields: dict[str, Any], before: _Fields) -> dict[str, Any]:
    """Replace a recipient's `addresses` by `add_addresses` and `remove_addresses`, and parse the time `ends_at`."""
    if "addresses" in fields:
        addresses, existing = fields.pop("addresses"), before.get("addresses", ())
        fields["add_addresses"] = [address for address in addresses if address not in existing]
        fields["remove_addresses"] = [address for address in existing if address not in addresses]
    if "ends_at" in fields:
        fields["ends_at"] = _parse_end(fields["ends_at"])
    return fields


def _parse_end(text: str | None) -> datetime:
    return NEVER if text is None else datetime.fromisoformat(text)
