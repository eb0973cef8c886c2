"""What the console's pages are about: one provider's catalog, tables, server and usage, by the operator's rights."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.reader import CatalogReader

if TYPE_CHECKING:
    from deltaic_ops.inspection.findings import Finding
    from deltaic_ops.inspection.shared_schema import SchemaReader


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, as the command line is connected to it."""

    title: str
    """Which one, for people."""

    admin: CatalogAdmin
    reader: CatalogReader
    """The catalog as endpoints read it for recipients."""

    schemas: "Callable[[], SchemaReader]"
    """What reads the logs of tables, loaded when it is asked for."""

    endpoint: str
    """Where recipients are answered; empty where nothing tells it."""

    usage: str
    """Location of the usage table."""

    runs: str
    """Location of the table of runs; empty where a page is told it."""

    options: Sequence[str]
    """The global options that the console was started with: its commands have them too."""

    environment: Mapping[str, str]
    """The variables by which a command reaches the same AWS and the same tables."""

    examine: "Callable[[], Iterable[Finding]]"
    """The doctor's examination."""
