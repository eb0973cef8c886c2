"""Clients and settings with which the console reads a provider's catalog, tables, server and usage."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.reader import CatalogReader

if TYPE_CHECKING:
    from deltaic_ops.inspection.findings import Finding
    from deltaic_ops.inspection.shared_schema import SchemaReader


class Rehearsal(NamedTuple):
    """Preview and warnings of a command that was rehearsed."""

    warnings: list[str]
    preview: list[dict[str, str]]
    """Rows of the table that the command shows before it asks for confirmation, by heading."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Clients and settings for one provider, created by the command line with the operator's credentials."""

    title: str
    """Name of the provider, which pages show."""

    admin: CatalogAdmin
    reader: CatalogReader
    """Reads the catalog as the server does for recipients' requests."""

    schemas: "Callable[[], SchemaReader]"
    """Returns a reader of table logs, created at first use."""

    endpoint: str
    """URL of the sharing server; empty if unknown."""

    usage: str
    """Location of the usage table."""

    runs: str
    """Location of the runs table; empty if operators enter it on the page of runs."""

    options: Sequence[str]
    """Global command-line options of the console, which it adds to the commands that it runs."""

    environment: Mapping[str, str]
    """Environment variables of commands that the console runs, so that they use its AWS account and tables."""

    examine: "Callable[[], Iterable[Finding]]"
    """Runs the checks of `deltaic doctor`."""

    rehearse: Callable[[Sequence[str]], Rehearsal]
    """Makes the checks of a command without changing anything (`deltaic_ops.cli.rehearsal`)."""
