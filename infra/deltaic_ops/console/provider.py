"""The provider whose catalog, tables, server and usage the console shows, with the operator's credentials."""

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
    """Clients and settings of one provider, as the command line has created them."""

    title: str
    """Name of the provider, for pages."""

    admin: CatalogAdmin
    reader: CatalogReader
    """Reader of the catalog as recipients see it."""

    schemas: "Callable[[], SchemaReader]"
    """Returns a reader of table logs, created at first use."""

    endpoint: str
    """URL of the sharing server; empty if unknown."""

    usage: str
    """Location of the usage table."""

    runs: str
    """Location of the table of runs; empty if only the page names it."""

    options: Sequence[str]
    """Global options of the console, which its commands use too."""

    environment: Mapping[str, str]
    """Environment variables with which commands use the same AWS account and tables."""

    examine: "Callable[[], Iterable[Finding]]"
    """Runs the checks of `deltaic doctor`."""
