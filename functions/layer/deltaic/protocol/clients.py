"""Detect by User-Agent which clients read all pages, ignore statistics or lack the delta format.

A client that does not follow pages would silently lose rows, so only behavior in public source code counts. Delta
Sharing's Spark client follows `nextPageToken` in every snapshot query from 1.1.0 on (`getFilesByPage`), and before that
only with its paging setting. Databricks' runtimes send the same name, but their source is not public.
"""

import re
from typing import Final

_SPARK: Final = re.compile(r"Delta-Sharing-Spark(?:StructuredStreaming)?/1\.(\d+)\.\d+(?:\s|$)")
_FIRST_MINOR: Final = 1

_PYTHON: Final = re.compile(r"Delta-Sharing-Python/(\d+)\.(\d+)\.\d+(?:\s|$)")
_FIRST_NAMED_PYTHON: Final = (0, 3)
_LAST_REVIEWED_PYTHON: Final = (1, 4)
_FIRST_WITH_DELTA_CHANGES: Final = (1, 3)


def follows_pages(user_agent: str) -> bool:
    """Return whether this client reads all pages of a snapshot, even if it did not request pages."""
    spark = _SPARK.match(user_agent)
    return spark is not None and int(spark[1]) >= _FIRST_MINOR and "Databricks" not in user_agent


def reads_statistics(user_agent: str) -> bool:
    """Return whether a client with this User-Agent may read file statistics in parquet format.

    Delta Sharing's Python client ignores statistics, from the first version that sends its name to the last one whose
    source was reviewed. It uses only a file's URL and partition values.
    """
    python = _PYTHON.match(user_agent)
    return python is None or not _FIRST_NAMED_PYTHON <= (int(python[1]), int(python[2])) <= _LAST_REVIEWED_PYTHON


def lacks_delta_format(user_agent: str) -> bool:
    """Return whether this is a Python client that cannot request both tables and changes in delta format.

    The Python client can request tables in delta format from version 1.1 on, and changes from 1.3 on.
    """
    python = _PYTHON.match(user_agent)
    return python is not None and (int(python[1]), int(python[2])) < _FIRST_WITH_DELTA_CHANGES
