"""Decides, by what clients say they are, who follows unasked pages, reads no statistics, lacks delta format.

Whoever does not follow would lose rows without a word, so only what public source proves is believed: every snapshot
query of Delta Sharing's own Spark client goes through the loop over `nextPageToken` from 1.1.0 on (`getFilesByPage`);
before, only with the setting that makes it ask for pages. Databricks' runtimes say the same name over a source that is
not public, so they are not believed.
"""

import re
from typing import Final

_SPARK: Final = re.compile(r"Delta-Sharing-Spark(?:StructuredStreaming)?/1\.(\d+)\.\d+(?:\s|$)")
_FIRST_MINOR: Final = 1

_PYTHON: Final = re.compile(r"Delta-Sharing-Python/(\d+)\.(\d+)\.\d+(?:\s|$)")
_SAYS_ITS_NAME: Final = (0, 3)
_LAST_READ: Final = (1, 4)
_DELTA_FOR_CHANGES: Final = (1, 3)


def follows_pages(user_agent: str) -> bool:
    """Tell whether a client with this User-Agent reads all pages of a snapshot, whether or not it asked for pages."""
    spark = _SPARK.match(user_agent)
    return spark is not None and int(spark[1]) >= _FIRST_MINOR and "Databricks" not in user_agent


def reads_statistics(user_agent: str) -> bool:
    """Tell whether a client with this User-Agent may read the statistics of files in parquet format.

    Delta Sharing's Python client takes them where they are and looks at none of them, from the version that first says
    its name to the last whose source was read; it reads a file by its URL and its partition values.
    """
    python = _PYTHON.match(user_agent)
    return python is None or not _SAYS_ITS_NAME <= (int(python[1]), int(python[2])) <= _LAST_READ


def lacks_delta_format(user_agent: str) -> bool:
    """Tell whether this is a release of the Python client that cannot ask for all it reads in delta format.

    Tables can be asked for so from 1.1 on, their changes from 1.3 on.
    """
    python = _PYTHON.match(user_agent)
    return python is not None and (int(python[1]), int(python[2])) < _DELTA_FOR_CHANGES
