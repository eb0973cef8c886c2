"""A Delta schema as Iceberg's: field ids, partition spec and name mapping; or why there is none."""

from typing import Any

import msgspec

from deltaic.pruning.columns import TableMetadata


class IcebergSchema(msgspec.Struct, frozen=True):
    """The columns of one version as Iceberg's metadata has them."""

    schema: dict[str, Any]
    """Iceberg's schema, with a `schema-id` of its content."""
    spec: dict[str, Any]
    """Iceberg's partition spec, with a `spec-id` of its content."""
    name_mapping: list[dict[str, Any]]
    """For files without field ids: physical names."""


def iceberg_schema(metadata: TableMetadata) -> IcebergSchema:
    """Translate; raises UnsupportedOperation, naming column and reason, for what Iceberg clients would misread.

    These are types without a counterpart, arrays and maps under column mapping whose elements have no ids in the
    files, changes of type that Iceberg does not know, and two columns of one id. Files are not looked at.
    """
    raise NotImplementedError
