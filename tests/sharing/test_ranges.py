"""A range of versions is answered whole and right, or refused before its first line."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from delta_tables.handmade import HandmadeLog, add, metadata, protocol, remove, vector
from deltaic.errors import TableUnreadable, Unavailable, UnsupportedOperation
from deltaic.protocol.tokens import TokenSigner
from deltaic.storage.sessions import SigningSessions
from sharing.means import ALL, Feed, Keys, lines, sharing

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


class NoKeys(Keys):
    """AWS, where the secret holds something else."""

    def get_secret_value(self, SecretId: str) -> Mapping[str, str]:  # noqa: N803 -- AWS's name
        return {"SecretString": SecretId}


def no_signer() -> TokenSigner:
    raise Unavailable("the key of tokens is out of reach")


def test_keys_that_are_refused_are_refused_before_the_answer_begins(tmp_path: Path) -> None:
    log = HandmadeLog(tmp_path)
    log.commit(protocol(), metadata(ON))
    log.commit(add("a"), add("b"))
    feed = Feed(tmp_path)
    feed.sharing = sharing(sessions=SigningSessions(client=lambda _: NoKeys()))
    with pytest.raises(TableUnreadable, match="secret of the table's storage"):
        feed.answer(0, 1)
    feed.sharing = sharing(token_key=no_signer)
    assert [next(iter(line)) for line in lines(feed.answer(0, 1))] == ["protocol", "metaData", "add", "add"]
    feed.max_files = 1
    with pytest.raises(Unavailable, match="key of tokens"):
        feed.answer(0, 1)
    for ask in ({"maxFiles": 1}, {"includeRefreshToken": True}):
        with pytest.raises(Unavailable, match="key of tokens"):
            feed.query(**ask)
