"""Whether what is shared beside Delta tables is there, as its entry says: folders, skills, Iceberg tables."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from deltaic.catalog.asset_items import Folder, Skill
from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError
from msgspec.structs import asdict

from deltaic_ops.inspection.filter_checks import READERS
from deltaic_ops.inspection.findings import Finding, ok, unread
from deltaic_ops.inspection.folder_contents import is_empty, skill_facts
from deltaic_ops.inspection.shared_schema import SchemaReader

Look = Callable[[], tuple[str, str] | None]
"""Returns what is odd of one and what to do, None where all is well; raises why it cannot be read."""


def assets(folders: Sequence[Folder], iceberg: Sequence[Table], schemas: SchemaReader) -> Iterator[Finding]:
    """Yield a finding for each that is not as its entry says, then one line for all others."""
    looks: list[tuple[str, str, Look]] = [
        (f"finds the {one.kind} {one.title}", _update(one), partial(_folder, one, schemas)) for one in folders
    ]
    for table in iceberg:
        name = table.title
        remedy = f"deltaic table update {name} --location ..., or deltaic table delete {name}"
        looks.append((f"finds the metadata of {name}", remedy, partial(schemas.check_iceberg, table)))
    with ThreadPoolExecutor(READERS) as pool:
        found = list(pool.map(lambda one: _looked(*one), looks))
    yield from (one for one in found if one)
    if good := found.count(None):
        yield ok("finds what is shared beside Delta tables", f"{good} of {len(found)}")


def _looked(check: str, remedy: str, look: Look) -> Finding | None:
    try:
        odd = look()
    except DeltaicError as refusal:
        return unread(check, refusal, remedy)
    return Finding(check, "warning", *odd) if odd else None


def _folder(entry: Folder, schemas: SchemaReader) -> tuple[str, str] | None:
    if is_empty(schemas, entry.location, entry.storage):
        return f"nothing lies at {entry.location}", _update(entry)
    if isinstance(entry, Skill):
        facts, _ = skill_facts(schemas, entry.name, entry.location, entry.storage)
        known = asdict(entry)
        if changed := [name for name, said in facts.items() if known[name] != said]:
            said = f"SKILL.md has another {', '.join(changed)} than recipients are told"
            return said, f"deltaic skill refresh {entry.title}"
    return None


def _update(entry: Folder) -> str:
    if entry.kind == "model":
        name, _, version = entry.title.rpartition(" ")
        return f"put its files there, or deltaic model version remove {name} {version}"
    return f"deltaic {entry.kind} update {entry.title} --location ..., or deltaic {entry.kind} delete {entry.title}"
