"""Decides, by what clients say they are, which of them follow pages that they did not ask for.

Whoever does not follow would lose rows without a word, so only what public source proves is believed: every snapshot
query of Delta Sharing's own Spark client goes through the loop over `nextPageToken` from 1.1.0 on (`getFilesByPage`);
before, only with the setting that makes it ask for pages. Databricks' runtimes say the same name over a source that is
not public, so they are not believed.
"""

import re
from typing import Final

_SPARK: Final = re.compile(r"Delta-Sharing-Spark(?:StructuredStreaming)?/1\.(\d+)\.\d+(?:\s|$)")
_FIRST_MINOR: Final = 1


def follows_pages(user_agent: str) -> bool:
    """Tell whether a client with this User-Agent reads all pages of a snapshot, whether or not it asked for pages."""
    spark = _SPARK.match(user_agent)
    return spark is not None and int(spark[1]) >= _FIRST_MINOR and "Databricks" not in user_agent
