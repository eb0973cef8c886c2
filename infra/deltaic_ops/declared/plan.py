"""Plan how to change a catalog to match files: ordered steps, and effects on recipients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltaic.errors import Conflict
from deltaic.protocol.names import split_table_name

from deltaic_ops.declared.declaration import Declaration
from deltaic_ops.declared.differences import CatalogDifference, DeclaredEntry, Key, differences, entries
from deltaic_ops.declared.effects import Effect, effects_of, join_names
from deltaic_ops.declared.file_errors import Mistakes
from deltaic_ops.declared.steps import PlanStep, refollow_remark, steps


@dataclass(frozen=True, slots=True)
class CatalogPlan:
    """The differences between files and catalog, and the ordered steps that make the catalog equal."""

    files: Declaration
    differences: Sequence[CatalogDifference]
    steps: Sequence[PlanStep]
    """Steps in order of execution; an entry that is deleted with its parent has no step of its own."""

    effects: Sequence[Effect]
    remarks: Sequence[str]

    @property
    def deleted_titles(self) -> list[str]:
        """Kind and name of each entry that the plan deletes, and of each schema that stops following its source."""
        return [change.title for change in self.differences if change.in_files is None or stops_following(change)]

    @property
    def widening_titles(self) -> list[str]:
        """Kind and name of the entries whose change lets recipients see more."""
        return [step.difference.title for step in self.steps if step.widens]


def plan(files: Declaration, catalog: Declaration) -> CatalogPlan:
    """Plan how to change the catalog to match the files; raises InvalidParameter for unsupported changes."""
    changes = differences(files, catalog)
    declared, views = {entry.key: entry for entry in entries(files)}, (view for view in changes if view.kind == "view")
    mistakes = [line for view in views for line in (*_check_unchangeable(view), *_check_source(view, declared))]
    if mistakes:
        raise Mistakes(mistakes)
    remarks = [remark for change in changes if (remark := refollow_remark(change, files))]
    return CatalogPlan(files, changes, steps(changes, files, catalog), effects_of(changes, files, catalog), remarks)


def stops_following(change: CatalogDifference) -> bool:
    """Return whether a schema stops following its source, so that the tables of the source are deleted."""
    if not change.in_files or not change.in_catalog or not change.in_catalog.get("follow"):
        return False
    after, before = change.in_files["follow"], change.in_catalog["follow"]
    return not after or any(after[field] != before[field] for field in ("source", "storage"))


def _check_unchangeable(view: CatalogDifference) -> Iterator[str]:
    if view.in_files is not None and view.in_catalog is not None:
        for field in ("location", "source"):
            if field in view.in_files:
                yield f"{view.title}: cannot change its {field} {view.in_catalog[field]}: create another view"


def _check_source(view: CatalogDifference, declared: Mapping[Key, DeclaredEntry]) -> Iterator[str]:
    """Yield an error message if a view's source is neither declared nor in a schema that follows a source."""
    if view.in_files and "sql" in view.in_files:
        source = str(declared[view.key].fields["source"])
        share, schema, name = (part.lower() for part in split_table_name(source))
        parent = declared.get(("schema", (share, schema)))
        if not (parent and parent.fields["follow"]) and ("table", (share, schema, name)) not in declared:
            yield f"view {view.name}: its source {source} is not a table in these files"


def check_unchanged(current: CatalogPlan, confirmed: CatalogPlan) -> None:
    """Raise Conflict if files and catalog now have differences that are not in the plan that the operator confirmed."""
    confirmed_by_key = {change.key: change for change in confirmed.differences}
    changed = [change.title for change in current.differences if confirmed_by_key.get(change.key) != change]
    if changed:
        raise Conflict(f"the catalog has changed since the plan was made ({join_names(changed)}): run apply again")
