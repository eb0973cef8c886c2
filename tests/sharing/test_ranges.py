"""A range of versions is answered whole and right, or refused before its first line."""

from pathlib import Path

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.errors import UnsupportedOperation
from sharing.means import ALL, Feed, lines

ON = {"delta.enableChangeDataFeed": "true"}
MARK = vector("ab^-aqEH.-t@S}K{vb[*k^")


def test_a_remove_of_a_marked_file_is_refused_to_who_would_misread_it(tmp_path: Path) -> None:
    """A bare remove would take away the rows that the vector had deleted before."""
    log = HandmadeLog(tmp_path)
    log.commit(protocol(3, 7, "deletionVectors"), metadata(ON))
    log.commit(add("a", vector=MARK))
    log.commit(remove("a", vector=MARK))
    with pytest.raises(UnsupportedOperation, match="deletionVectors"):
        Feed(tmp_path).answer(2, 2)
    answer = Feed(tmp_path, ALL).answer(2, 2)
    assert answer.response_format == "delta"
    (line,) = [found["file"] for found in lines(answer) if "file" in found]
    assert line["deltaSingleAction"]["remove"]["deletionVector"]["cardinality"] == 1
