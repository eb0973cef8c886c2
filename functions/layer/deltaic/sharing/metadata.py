"""Return a table's version, or the protocol and metaData lines of one version."""

from deltaic.protocol.requests import MetadataRequest, VersionRequest
from deltaic.sharing.answer import Answer, ReadOptions
from deltaic.sharing.caller import Caller, RequestedTable
from deltaic.sharing.context import Sharing
from deltaic.sharing.head_lines import HEAD_LINES, head_lines
from deltaic.sharing.snapshots import find_snapshot, negotiate, open_log


def get_version(sharing: Sharing, caller: Caller, name: RequestedTable, request: VersionRequest) -> int:
    """Return the latest version of a table, or the first version at or after a timestamp.

    PROTOCOL.md, "Query Table Version". Streaming clients poll this endpoint.
    """
    table = sharing.table(caller, name)
    instant = request.starting_instant(table.gate)
    log = open_log(sharing, table)
    if instant is None:
        return log.latest_version()
    version = log.history.version_at_or_after(instant.ceil_ms)
    request.check_version(table.gate, version)
    return version


def get_metadata(
    sharing: Sharing, caller: Caller, name: RequestedTable, request: MetadataRequest, read_options: ReadOptions
) -> Answer:
    """Return the protocol and metaData lines of a version (PROTOCOL.md, "Query Table Metadata").

    Without a version or timestamp, return the latest version. Raises an error for versions that are not shared.
    """
    table = sharing.table(caller, name)
    request.check_gate(table.gate)
    options = read_options()
    snapshot = find_snapshot(open_log(sharing, table), request.version, request.instant())
    table.gate.check_version(snapshot.version)
    response_format = negotiate(snapshot.live_features, options, snapshot.parquet_refusal)
    caller.audit.metrics.other_lines += HEAD_LINES
    return Answer(
        version=snapshot.version,
        response_format=response_format,
        options=options,
        chunks=[head_lines(table, snapshot, response_format)],
    )
