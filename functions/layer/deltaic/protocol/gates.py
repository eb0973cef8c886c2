"""Check that a table's catalog entry permits a request: whether history is shared, and from which version."""

import msgspec

from deltaic.errors import InvalidParameter


class TableGate(msgspec.Struct, frozen=True):
    """Checks of requests for the history of one table."""

    full_name: str
    """`share.schema.table`, with upper and lower case as in the request."""
    history_shared: bool
    start_version: int
    """First version that recipients may read; 0 for all."""

    def require_history(self) -> None:
        """Reject time travel, ranges and timestamps unless history is shared."""
        if not self.history_shared:
            raise InvalidParameter(
                "Reading table by version or timestamp is not supported because history sharing is not enabled on "
                f"table: {self.full_name}"
            )

    def require_changes(self) -> None:
        """Reject the change data feed unless history is shared."""
        if not self.history_shared:
            raise InvalidParameter(f"cdf is not enabled on table {self.full_name}")

    def require_credentials(self) -> None:
        """Reject directory credentials unless all history is shared, because they expose the complete log."""
        if not self.history_shared:
            raise InvalidParameter(
                "Temporary table credentials are not supported because history sharing is not enabled on table: "
                f"{self.full_name}"
            )
        if self.start_version:
            raise InvalidParameter(
                "Temporary table credentials are not supported because history is shared only since version "
                f"{self.start_version} of table: {self.full_name}. Read it through pre-signed URLs."
            )

    def check_version(self, version: int) -> None:
        """Reject a version before the table's start version, whether requested by number or by time."""
        if version < self.start_version:
            raise InvalidParameter(f"You can only query table data since version {self.start_version}.")

    def check_changes_version(self, version: int) -> None:
        """Reject a range of changes that starts before the table's start version."""
        if version < self.start_version:
            raise InvalidParameter(f"You can only query table changes since version {self.start_version}.")
