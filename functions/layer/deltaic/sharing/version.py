"""The version of a table: the latest one, or the first at or after a timestamp."""

from deltaic.protocol.requests import VersionRequest
from deltaic.sharing.caller import Caller, TableName
from deltaic.sharing.context import Sharing
from deltaic.sharing.snapshots import open_log


def get_version(sharing: Sharing, caller: Caller, name: TableName, request: VersionRequest) -> int:
    """Return the version (PROTOCOL.md, "Query Table Version"); this is what streaming clients poll."""
    table = sharing.table(caller, name)
    instant = request.starting_instant(table.gate)
    log = open_log(sharing, table)
    if instant is None:
        return log.latest_version()
    version = log.history.version_at_or_after(instant.ceil_ms)
    request.check_version(table.gate, version)
    return version
