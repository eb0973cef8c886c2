"""A view's refresh: the rows that changed since the last one, for all policies in one commit."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaic_pipeline.view_refresh.definition import Definition, Wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh found and did."""

    version: int
    """The version of the view that holds the wanted rows: the commit of the rows, or the latest if none changed."""

    source_versions: Mapping[str, int]
    """The version of each table that was read, by its full name."""

    full_because: str
    """Why all rows were computed; empty if the source's changes were enough."""

    inserted: int
    updated: int
    deleted: int
    """Rows that changed over all policies; nothing was committed if all three are 0 and `repeated` is False."""

    rows: Mapping[str, int]
    """How many rows each wanted policy has now."""

    bytes: int
    """The size of the data files of the latest version."""

    repeated: bool
    """True when an earlier attempt of this run had committed already, so that nothing was computed now."""


def refresh(
    spark: "SparkSession", definition: Definition, wanted: Sequence[Wanted], known: Collection[str], run: str
) -> Refreshed:
    """Bring the view's table to the latest version of what it reads, in one commit, or none where nothing changed.

    `known` are the policies that the catalog says the table holds; a wanted policy that is not among them is computed
    in full, and rows of policies that are not wanted are deleted, all in the same commit. The caller holds the lease on
    the view's location, `spark` is its attempt's own session. `run` names this refresh: repeated after it committed, it
    commits no rows again. Raises `InvalidParameter` for SQL that no view can have and `PipelineError` for what Spark
    refuses, for keys that are given twice or not at all, and for columns that the view's table would lose.
    """
    raise NotImplementedError(spark, definition, wanted, known, run)
