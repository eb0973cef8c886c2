"""Carry out the steps of a plan, with the same checks as the commands for single entries."""

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
from deltaic_ops.declared.differences import Difference
from deltaic_ops.declared.plan import ends_following
from deltaic_ops.declared.steps import Step
from deltaic_ops.inspection.filter_checks import check_grant, unknown_bucket, validate_table
from deltaic_ops.inspection.folder_contents import is_empty, skill_facts
from deltaic_ops.inspection.shared_schema import SchemaReader
from deltaic_ops.inspection.view_checks import validate_sql

_STOPPING = (LockLost, TooManyRequests, Unavailable)
"""Errors that another order of steps cannot avoid."""

_Fields = Mapping[str, Any]


class Refused(Exception):
    """A step failed, and no other step can fix the cause."""

    def __init__(self, step: Step, refusal: DeltaicError) -> None:
        super().__init__(refusal.message)
        self.step = step
        self.refusal = refusal


@dataclass
class Applying:
    """Clients, settings and results of one run of `apply`."""

    admin: CatalogAdmin
    schemas: Callable[[], SchemaReader]
    """Returns a reader of shared tables and folders, with the operator's credentials."""

    unchecked: bool = False
    """Whether unfiltered tables and folders are shared without reading them."""

    loopback: bool = False
    """Whether an issuer can be on this machine, as with a local AWS."""

    warnings: list[str] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    """Created and changed views."""

    gone: list[View] = field(default_factory=list)
    """Deleted views, whose schedules must be deleted too."""

    def carry_out(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Carry out the steps in a possible order, and yield each finished step; raises Refused.

        Changes finish before a later phase starts; otherwise rights would be given to entries that are not filtered
        yet. New entries can wait until the end: a grant may still have a filter that does not match them.
        """
        waiting: list[Step] = []
        for _, some in groupby(steps, lambda step: step.phase):
            for refused in (yield from self._made(list(some))):
                if refused.step.action != "create":
                    raise refused
                waiting.append(refused.step)
        if left := (yield from self._made(waiting)):
            self.warnings += [f"{one.step.difference.title} also failed: {one.refusal.message}" for one in left[1:]]
            raise left[0]

    def _made(self, steps: list[Step]) -> Generator[Step, None, list[Refused]]:
        """Carry out steps that may depend on each other, until no more can be; return those that failed."""
        while steps:
            refusals: list[Refused] = []
            for step in steps:
                try:
                    self._make(step)
                except _STOPPING as refusal:
                    raise Refused(step, refusal) from refusal
                except DeltaicError as refusal:
                    refusals.append(Refused(step, refusal))
                else:
                    yield step
            if len(refusals) == len(steps):
                return refusals
            steps = [refused.step for refused in refusals]
        return []

    def _make(self, step: Step) -> None:
        before, self.warnings = self.warnings, []
        try:
            self._carry(step)
            before += [f"{step.difference.title}: {said}" for said in self.warnings]
        finally:
            self.warnings = before  # a failed step is tried again, so its warnings are dropped

    def _carry(self, step: Step) -> None:
        one = step.difference
        if step.action == "delete":
            self._delete(one.kind, one.path)
        elif step.action == "create":
            self._create(one.kind, one.path, dict(one.in_files or {}))
        else:
            self._update(one.kind, one.path, dict(one.in_files or {}), one.in_catalog or {})

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
                self.gone.append(view)
            case "share" | "schema" | "model":
                views = self._views_in(kind, path)
                getattr(admin, f"{kind}s").delete(*path, force=True)
                self.gone += views
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
                admin.tables.create(*path, validate=self._validate, **fields)
            case "view":
                read = validate_sql(admin, self.schemas, fields["sql"], admin.views.source(fields["source"]))
                self.views.append(admin.views.create(*path, properties=sorted(read.properties), **fields))
            case "volume" | "skill":
                facts = self._look(kind, path[-1], fields["location"], fields["storage"])
                getattr(admin, f"{kind}s").create(*path, **facts, **fields)
            case "version":
                facts = {name: fields.pop(name) for name in ("run_id", "source")}
                self._look(kind, "", fields["location"], fields["storage"])
                admin.models.add_version(*_version(path), facts=facts, **fields)
            case "recipient":
                properties, comment = texts_of(fields.pop("properties")), fields.pop("comment")
                limits = _limits({name: value for name, value in fields.items() if value}, {})
                made = admin.recipients.create(*path, comment=comment, properties=properties)
                if limits:
                    admin.recipients.update(made.name, **limits)
            case "policy":
                issuer, claim = fields.pop("issuer"), fields.pop("subject_claim")
                check_issuer(issuer, loopback=self.loopback)
                admin.federation.create(admin.recipients.get(path[0]), issuer, claim=claim, **fields)
            case "grant":
                self._check_grant(path, fields)
                ends_at = None if fields["ends_at"] is None else _moment(fields["ends_at"])
                admin.grants.create(*path, partition_filter=fields["partition_filter"], ends_at=ends_at)
            case _:
                getattr(admin, f"{kind}s").create(*path, **fields)

    def _update(self, kind: str, path: tuple[str, ...], fields: dict[str, Any], before: _Fields) -> None:
        admin = self.admin
        match kind:
            case "share":
                admin.shares.update(*path, **_properties(fields, before))
            case "schema":
                self._update_schema(path, fields, before)
            case "table":
                admin.tables.update(*path, validate=self._validate, followed=False, **fields)
            case "view":
                self._update_view(path, fields)
            case "volume" | "skill":
                folders = getattr(admin, f"{kind}s")
                facts = self._moved(kind, path[-1], fields, lambda: folders.get(*path))
                folders.update(*path, **facts, **fields)
            case "version":
                facts = {name: fields.pop(name) for name in ("run_id", "source") if name in fields}
                self._moved(kind, "", fields, lambda: admin.models.version(*_version(path)))
                admin.models.update_version(*_version(path), facts=facts, **fields)
            case "recipient":
                if "properties" in fields:
                    fields["properties"] = texts_of(fields["properties"])
                admin.recipients.update(*path, **_limits(_properties(fields, before), before))
            case "policy":
                admin.federation.update(admin.recipients.get(path[0]), path[1], **fields)
            case "grant":
                self._check_grant(path, fields)
                admin.grants.update(*path, **_limits(fields, {}))
            case _:
                getattr(admin, f"{kind}s").update(*path, **fields)

    def _update_schema(self, path: tuple[str, ...], fields: dict[str, Any], before: _Fields) -> None:
        one = Difference("schema", path, dict(fields), before)
        follow = fields.pop("follow", None)
        self.admin.schemas.update(*path, **fields)
        if ends_following(one):
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
        if history is False:  # first take history away, and give it last
            self.admin.tables.update(*path, history=False)
        self.views.append(views.update(*path, **fields))
        if history:
            self.admin.tables.update(*path, history=True)

    def _validate(self, wanted: Table, before: Table | None) -> Table:
        stored, told = validate_table(self.admin, self.schemas, wanted, before, unchecked=self.unchecked)
        self.warnings += told
        return stored

    def _moved(self, kind: str, name: str, fields: _Fields, before: Callable[[], Any]) -> dict[str, Any]:
        """Check the new location of a folder, if it changes."""
        if not fields.keys() & {"location", "storage"}:
            return {}
        there = before()
        return self._look(kind, name, fields.get("location", there.location), fields.get("storage", there.storage))

    def _look(self, kind: str, name: str, location: str, storage: str) -> dict[str, Any]:
        """Return the facts of a skill's SKILL.md as an argument, and add warnings about a folder."""
        found: dict[str, Any] = {}
        if kind == "skill":
            found["facts"], told = skill_facts(self.schemas(), name, location, storage)
            self.warnings += told
        self.warnings += unknown_bucket(self.admin, location)
        if not self.unchecked and is_empty(self.schemas(), location, storage):
            self.warnings.append(f"{location} is empty")
        return found

    def _check_grant(self, path: tuple[str, ...], fields: _Fields) -> None:
        if rows := fields.get("partition_filter"):
            check_grant(rows, self.admin.tables.list(path[1]), self.schemas())


def _version(path: tuple[str, ...]) -> tuple[str, str, str, int]:
    share, schema, model, version = path
    return share, schema, model, int(version)


def _properties(fields: dict[str, Any], before: _Fields) -> dict[str, Any]:
    """Replace `properties` by the properties to add and to remove."""
    if "properties" not in fields:
        return fields
    wanted = fields.pop("properties")
    gone = tuple(name for name in before["properties"] if name not in wanted)
    return {**fields, "add_properties": wanted, "remove_properties": gone}


def _limits(fields: dict[str, Any], before: _Fields) -> dict[str, Any]:
    """Replace `addresses` by the addresses to add and to remove, and parse `ends_at`."""
    if "addresses" in fields:
        wanted, there = fields.pop("addresses"), before.get("addresses", ())
        fields["add_addresses"] = [one for one in wanted if one not in there]
        fields["remove_addresses"] = [one for one in there if one not in wanted]
    if "ends_at" in fields:
        fields["ends_at"] = _moment(fields["ends_at"])
    return fields


def _moment(text: str | None) -> datetime:
    return NEVER if text is None else datetime.fromisoformat(text)
