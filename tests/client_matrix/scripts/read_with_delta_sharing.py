"""Read with `delta-sharing` for Python; the argument is the format: `default` or `delta`."""

import sys
from collections.abc import Mapping
from typing import Any

import delta_sharing
import pandas as pd
from client_matrix.scripts import reading


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Read a table or its changes."""
    options: dict[str, Any] = {"use_delta_format": True} if sys.argv[1:] == ["delta"] else {}
    url = f"{job['profiles'][check['profile']]}#{job['share']}.{job['schema']}.{check['table']}"
    if check["changes"]:
        first, last = check["changes"]
        return rows(delta_sharing.load_table_changes_as_pandas(url, first, last, **options))
    if check["version"] is not None:
        options["version"] = check["version"]
    return rows(delta_sharing.load_as_pandas(url, **options))


def rows(frame: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Return the rows of a frame."""
    records: list[Mapping[str, Any]] = frame.drop(columns=["_commit_timestamp"], errors="ignore").to_dict("records")
    return records


reading.main(delta_sharing.__version__, read)
