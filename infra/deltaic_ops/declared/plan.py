"""Plans: the steps that change a catalog to match files, in order, and their effects for recipients."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from deltaic.errors import Conflict, InvalidParameter
from deltaic.protocol.names import split_table_name
from pydantic import BaseModel, ConfigDict, ValidationError

from deltaic_ops.declared.declaration import Declaration
from deltaic_ops.declared.differences import Difference, Entry, Key, differences, entries
from deltaic_ops.declared.effects import Meaning, listed, meanings
from deltaic_ops.declared.file_errors import Mistakes
from deltaic_ops.declared.steps import Step, comes_back, steps


@dataclass(frozen=True, slots=True)
class Plan:
    """The differences between files and catalog, and the steps that remove them."""

    files: Declaration
    found: Sequence[Difference]
    steps: Sequence[Step]
    """Steps in order; entries that are deleted with their parent have no step."""

    means: Sequence[Meaning]
    remarks: Sequence[str]
    """Additional notes."""

    @property
    def deleted(self) -> int:
        """The number of deleted entries; a schema that stops following a source loses the tables of the source."""
        return len(self.gone)

    @property
    def gone(self) -> list[str]:
        """Titles of the deleted entries."""
        return [one.title for one in self.found if one.in_files is None or ends_following(one)]

    @property
    def widened(self) -> list[str]:
        """Titles of the entries whose change lets recipients see more."""
        return [step.difference.title for step in self.steps if step.widens]


def plan(files: Declaration, catalog: Declaration) -> Plan:
    """Return the plan that changes the catalog to match the files; raises InvalidParameter for impossible changes."""
    found = differences(files, catalog)
    there = {one.key: one for one in entries(files)}
    wrong = [line for one in found if one.kind == "view" for line in (*_unchangeable(one), *_sourceless(one, there))]
    if wrong:
        raise Mistakes(wrong)
    remarks = [said for one in found if (said := comes_back(one, files))]
    return Plan(files, found, steps(found, files, catalog), meanings(found, files, catalog), remarks)


def ends_following(one: Difference) -> bool:
    """Return whether a schema stops following its source, so that the tables of the source are deleted."""
    if not one.in_files or not one.in_catalog or not one.in_catalog.get("follow"):
        return False
    after, before = one.in_files["follow"], one.in_catalog["follow"]
    return not after or any(after[field] != before[field] for field in ("source", "storage"))


def _unchangeable(view: Difference) -> Iterator[str]:
    if view.in_files is not None and view.in_catalog is not None:
        for field in ("location", "source"):
            if field in view.in_files:
                yield f"{view.title}: cannot change its {field} {view.in_catalog[field]}: create another view"


def _sourceless(view: Difference, there: Mapping[Key, Entry]) -> Iterator[str]:
    """Yield a mistake for new SQL of a view whose source is neither in the files nor in a followed schema."""
    if view.in_files and "sql" in view.in_files:
        source = str(there[view.key].fields["source"])
        share, schema, name = (part.lower() for part in split_table_name(source))
        held = there.get(("schema", (share, schema)))
        if not (held and held.fields["follow"]) and ("table", (share, schema, name)) not in there:
            yield f"view {view.name}: its source {source} is not a table in these files"


class _PlanFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    deltaic_plan: Literal[1]
    files: Declaration
    found: list[Difference]


def write_plan(made: Plan, file: Path) -> None:
    """Save a plan with the content of its files, which have no secrets."""
    found = list(map(asdict, made.found))
    content = {"deltaic_plan": 1, "files": made.files.model_dump(mode="json", exclude_defaults=True), "found": found}
    file.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")


def read_plan(file: Path) -> tuple[Declaration, list[Difference]]:
    """Read a saved plan: its files, and the differences at that time; raises InvalidParameter for another file."""
    try:
        kept = _PlanFile.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise InvalidParameter(f"'{file}' is not a plan: create one with `deltaic plan FILES --out {file}`") from None
    return kept.files, kept.found


def refuse_moved(now: Plan, planned: Iterable[Difference]) -> None:
    """Raise Conflict if the catalog has changed since a plan, so that there are other differences.

    Finished steps of the plan are no differences any more.
    """
    known = {one.key: one for one in planned}
    other = [one.title for one in now.found if known.get(one.key) != one]
    if other:
        raise Conflict(f"the catalog has changed since the plan was made ({listed(other)}): run plan again")
