"""What makes a catalog what the files say: steps in the order in which they can be made, and what they mean."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from deltaic.errors import Conflict, InvalidParameter
from deltaic.protocol.names import split_table_name
from pydantic import BaseModel, ConfigDict, ValidationError

from deltaic_ops.declared.entries import Difference, Entry, Key, differences, entries
from deltaic_ops.declared.meaning import Meaning, listed, meanings
from deltaic_ops.declared.mistakes import Mistakes
from deltaic_ops.declared.model import Declaration
from deltaic_ops.declared.steps import Step, comes_back, steps


@dataclass(frozen=True, slots=True)
class Plan:
    """What differs between the files and the catalog."""

    files: Declaration
    found: Sequence[Difference]
    steps: Sequence[Step]
    """In their order; what goes with something else has none of its own."""

    means: Sequence[Meaning]
    remarks: Sequence[str]
    """What else to know before."""

    @property
    def deleted(self) -> int:
        """How many entries are deleted; a schema that follows nothing more loses what it followed."""
        return len(self.gone)

    @property
    def gone(self) -> list[str]:
        """What is deleted."""
        return [one.title for one in self.found if one.in_files is None or ends_following(one)]

    @property
    def widened(self) -> list[str]:
        """What shows more to somebody."""
        return [step.difference.title for step in self.steps if step.widens]


def plan(files: Declaration, catalog: Declaration) -> Plan:
    """Return what makes the catalog what the files say; raises InvalidParameter for what cannot be changed."""
    found = differences(files, catalog)
    there = {one.key: one for one in entries(files)}
    wrong = [line for one in found if one.kind == "view" for line in (*_unchangeable(one), *_sourceless(one, there))]
    if wrong:
        raise Mistakes(wrong)
    remarks = [said for one in found if (said := comes_back(one, files))]
    return Plan(files, found, steps(found, files, catalog), meanings(found, files, catalog), remarks)


def ends_following(one: Difference) -> bool:
    """Tell whether a schema follows nothing more, or something else: the tables that it followed go."""
    if not one.in_files or not one.in_catalog or not one.in_catalog.get("follow"):
        return False
    after, before = one.in_files["follow"], one.in_catalog["follow"]
    return not after or any(after[field] != before[field] for field in ("source", "storage"))


def _unchangeable(view: Difference) -> Iterator[str]:
    if view.in_files is not None and view.in_catalog is not None:
        for field in ("location", "source"):
            if field in view.in_files:
                was = f"its {field} is set once, and is {view.in_catalog[field]}"
                yield f"{view.title}: {was}: give the new one another name"


def _sourceless(view: Difference, there: Mapping[Key, Entry]) -> Iterator[str]:
    """Yield what is wrong with a new view, or a new SQL, whose source is in no file and comes by no follow."""
    if view.in_files and "sql" in view.in_files:
        source = str(there[view.key].fields["source"])
        share, schema, name = (part.lower() for part in split_table_name(source))
        held = there.get(("schema", (share, schema)))
        if not (held and held.fields["follow"]) and ("table", (share, schema, name)) not in there:
            yield f"view {view.name}: its source {source} is no table of these files"


class _PlanFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    deltaic_plan: Literal[1]
    files: Declaration
    found: list[Difference]


def write_plan(made: Plan, file: Path) -> None:
    """Keep a plan; it holds what the files hold, and no secrets."""
    found = list(map(asdict, made.found))
    content = {"deltaic_plan": 1, "files": made.files.model_dump(mode="json", exclude_defaults=True), "found": found}
    file.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")


def read_plan(file: Path) -> tuple[Declaration, list[Difference]]:
    """Return what shall be, and what differed when the plan was made; raises InvalidParameter for no such file."""
    try:
        kept = _PlanFile.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise InvalidParameter(f"'{file}' holds no plan: `deltaic plan FILES --out {file}` makes one") from None
    return kept.files, kept.found


def refuse_moved(now: Plan, planned: Iterable[Difference]) -> None:
    """Raise Conflict where the catalog has moved since a plan: where anything differs that did not, or not like that.

    What was carried out of the plan already differs no more.
    """
    known = {one.key: one for one in planned}
    other = [one.title for one in now.found if known.get(one.key) != one]
    if other:
        raise Conflict(f"the catalog has moved since the plan was made ({listed(other)}): plan again")
