"""Check that shared folders, skills and Iceberg tables exist and match their catalog entries."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltaic.catalog.asset_items import Folder, Skill
from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError
from msgspec.structs import asdict

from deltaic_ops.inspection.filter_checks import READERS
from deltaic_ops.inspection.findings import Finding, ok, unreadable_object
from deltaic_ops.inspection.folder_contents import is_empty, skill_facts
from deltaic_ops.inspection.shared_schema import SchemaReader


def check_assets(folders: Sequence[Folder], iceberg: Sequence[Table], schemas: SchemaReader) -> Iterator[Finding]:
    """Yield a finding for each folder or table that differs from its entry, then a passed one for all others."""
    with ThreadPoolExecutor(READERS) as pool:
        findings = list(pool.map(lambda entry: _check_entry(entry, schemas), [*folders, *iceberg]))
    yield from filter(None, findings)
    if passed := findings.count(None):
        yield ok("finds shared folders and Iceberg tables", f"{passed} of {len(findings)}")


def _check_entry(entry: Folder | Table, schemas: SchemaReader) -> Finding | None:
    """Return the finding about the problem of an entry; None without a problem."""
    verb = "reads the Iceberg" if isinstance(entry, Table) else "finds the"
    check = f"{verb} {entry.kind} {entry.title}"
    try:
        problem = _check_iceberg(entry, schemas) if isinstance(entry, Table) else _check_folder(entry, schemas)
    except DeltaicError as refusal:
        return unreadable_object(check, refusal, _remedy(entry))
    return Finding(check, "warning", *problem) if problem else None


def _check_folder(entry: Folder, schemas: SchemaReader) -> tuple[str, str] | None:
    if is_empty(schemas, entry.location, entry.storage):
        return f"{entry.location} is empty", _remedy(entry)
    if isinstance(entry, Skill):
        facts, _ = skill_facts(schemas, entry.name, entry.location, entry.storage)
        stored = asdict(entry)
        if changed := [name for name, value in facts.items() if stored[name] != value]:
            return f"catalog and SKILL.md differ: {', '.join(changed)}", f"deltaic skill refresh {entry.title}"
    return None


def _check_iceberg(table: Table, schemas: SchemaReader) -> tuple[str, str] | None:
    warnings = schemas.check_iceberg(table)
    return ("; ".join(warnings), "share a copy, or filter its rows with --partition-filter") if warnings else None


def _remedy(entry: Folder | Table) -> str:
    if entry.kind == "model":
        name, _, version = entry.title.rpartition(" ")
        return f"put its files there, or deltaic model version remove {name} {version}"
    return f"deltaic {entry.kind} update {entry.title} --location ..., or deltaic {entry.kind} delete {entry.title}"
