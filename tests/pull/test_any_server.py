"""Other servers: what is pulled of one without our niceties, what is refused of a wrong one, and that nothing leaks."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from delta_sharing_pull.server import Shared, SharingServer
from delta_sharing_pull.snapshot import Snapshot, SourceMoved
from pull.any_server import AnyServer, any_server
from pull.rows import rows_of_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.conftest import Deltaic

pytestmark = pytest.mark.slow

SOURCE = "any.share#s.d.t"


@pytest.fixture
def server(deltaic: Deltaic, tmp_path: Path) -> Iterator[AnyServer]:
    """Return a server with two files of rows, some of them equal; its profile lies in the working folder."""
    assert deltaic is not None  # has made the folder the working one
    with any_server() as running:
        running.put(1, 2, 2)
        running.put(2, 3)
        running.profile(tmp_path)
        yield running


def ids(folder: Path) -> Counter[int]:
    return Counter(rows_of_folder(folder)["id"].to_pylist())


def test_parquet_format_and_no_end_will_do(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    told = deltaic.json(f"pull {SOURCE} copy/")
    assert told == {"source": "s.d.t", "target": "copy/", "version": 2, "changed": True, "files": 2}
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3])
    deltaic.done(f"pull {SOURCE} t.parquet")
    assert Counter(pq.read_table(tmp_path / "t.parquet")["id"].to_pylist()) == Counter([1, 2, 2, 2, 3])
    deltaic.done(f"pull {SOURCE} t.csv --limit 4")
    assert (tmp_path / "t.csv").read_text().splitlines() == ['"id"', "1", "2", "2", "2"]
    assert {method for method, *_ in server.asked} == {"GET", "POST"}


def test_files_that_are_there_are_not_fetched_again(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    deltaic.done(f"pull {SOURCE} copy/")
    server.put(4)
    server.asked.clear()
    deltaic.done(f"pull {SOURCE} copy/")
    assert len(fetched(server)) == 1
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3, 4])
    assert not deltaic.json(f"pull {SOURCE} copy/")["changed"]
    (victim, *_) = sorted((tmp_path / "copy").glob("*.parquet"))
    victim.unlink()
    deltaic.done(f"pull {SOURCE} copy/")
    assert victim.exists()


def test_urls_that_have_ended_are_renewed(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    server.gone = 1  # those of the first answer
    deltaic.done(f"pull {SOURCE} copy/")
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3])


def test_urls_that_never_hold_end_the_pull(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    server.gone = 1_000_000
    refused = deltaic(f"pull {SOURCE} copy/")
    assert refused.exit_code == 1
    assert "answers 403 to a signed URL" in refused.stderr
    assert not (tmp_path / "copy" / "_delta_log").exists()


def test_a_table_that_moves_on_is_asked_anew(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    """Its files of the first answer are refused, and the next answer has others."""

    def moves_on(path: str, _: bytes) -> None:
        if path.endswith("/query") and server.generation == 1:
            server.files.clear()
            server.put(7)

    server.gone, server.told = 1, moves_on
    assert deltaic.json(f"pull {SOURCE} copy/")["version"] == 3
    assert ids(tmp_path / "copy") == Counter([7])


def test_a_file_whose_vector_another_version_exchanges_has_moved(server: AnyServer) -> None:
    """Both versions name the file by the same id: only a vector's own id tells which rows are left of it."""
    version = 0

    def with_vector(lines: list[Any]) -> list[Any]:
        vector = {"storageType": "p", "pathOrInlineDv": f"https://store/{version}", "sizeInBytes": 1, "cardinality": 1}
        add = {"path": "https://store/file", "size": 1, "partitionValues": {}, "deletionVector": vector}
        told = {"id": "f", "deletionVectorFileId": f"v{version}", "deltaSingleAction": {"add": add}}
        return [*lines[:2], {"file": told}]

    server.change = with_vector
    with closing(SharingServer(server.endpoint, "secret-bearer")) as asked:
        snapshot = Snapshot(asked, Shared(Path(), "s", "d", "t"), {})
        [file] = snapshot.files
        first = snapshot.link(file)
        assert snapshot.link(file, first).vector_url == "https://store/0"
        version = 1
        with pytest.raises(SourceMoved):
            snapshot.link(file, snapshot.link(file))


def test_an_object_that_breaks_off_is_completed(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    own = tmp_path / "copy" / ".deltaic-pull"
    deltaic.done(f"pull {SOURCE} copy/")
    (whole, *_) = sorted((tmp_path / "copy").glob("*.parquet"))
    (own / whole.name).write_bytes(whole.read_bytes()[:20])
    whole.unlink()
    server.asked.clear()
    deltaic.done(f"pull {SOURCE} copy/")
    ((_, _, headers, _),) = fetched(server)
    assert headers["Range"] == "bytes=20-"
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3])


def test_neither_the_token_nor_a_url_is_told(deltaic: Deltaic, server: AnyServer) -> None:
    server.gone = 1_000_000
    for line in (f"pull {SOURCE} copy/", f"pull {SOURCE} t.csv", f"pull {SOURCE} t.csv --json"):
        said = deltaic(line).output
        assert "secret-bearer" not in said
        assert "/signed/" not in said
    for method, path, headers, _ in server.asked:
        assert ("Authorization" in headers) == (not path.startswith("/signed/")), (method, path)


def wrong(change: Any) -> Any:
    def lines(told: list[Any]) -> list[Any]:
        change(told)
        return told

    return lines


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(lambda told: told.pop(0), "protocol or metaData is missing", id="no protocol"),
        pytest.param(lambda told: told.clear(), "protocol or metaData is missing", id="nothing"),
        pytest.param(lambda told: told[2]["file"].pop("size"), "url or size of a file is missing", id="no size"),
        pytest.param(lambda told: told[2]["file"].update(size="x"), "$.file.size", id="no number"),
        pytest.param(lambda told: told[2]["file"].update(url="file:///etc/passwd"), "not of the web", id="a file"),
        pytest.param(lambda told: told[2]["file"].update(url="\x1b[2J"), "a URL", id="no URL"),
        pytest.param(lambda told: told[2]["file"].update(size=7), "more than the 7 bytes", id="too few told"),
    ],
)
@pytest.mark.parametrize("target", ["copy/", "t.csv"])
def test_a_wrong_answer_is_refused_and_nothing_written(  # noqa: PLR0917
    deltaic: Deltaic, server: AnyServer, tmp_path: Path, target: str, change: Any, says: str
) -> None:
    server.change = wrong(change)
    refused = deltaic(f"pull {SOURCE} {target}")
    assert refused.exit_code == 1
    assert says in refused.stderr
    assert "\x1b" not in refused.output
    assert not (tmp_path / "t.csv").exists()
    assert not (tmp_path / "copy" / "_delta_log").exists()


def test_ids_are_no_names(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    """A file's id comes from the server, and says nothing of where it lies here."""
    server.change = wrong(lambda told: told[2]["file"].update(id="../../x\x1b"))
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    deltaic.done(f"pull {SOURCE} copy/")
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "answers 401, X: no \\u001b[2J"), (403, "answers 403"), (404, "answers 404"), (400, "answers 400")],
)
def test_a_refusal_is_told_in_the_servers_words(deltaic: Deltaic, server: AnyServer, status: int, said: str) -> None:
    server.told = lambda _path, _body: (status, json.dumps({"errorCode": "X", "message": "no \x1b[2J\n"}).encode())
    refused = deltaic(f"pull {SOURCE} t.csv")
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert "\x1b" not in refused.output


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("pull any.share t.csv", "write PROFILE#share.schema.name"),
        ("pull any.share#s.t t.csv", "write PROFILE#share.schema.name"),
        ("pull none.share#s.d.t t.csv", "none.share is no profile file"),
        (f"pull {SOURCE} t", "does not say what a table becomes"),
        (f"pull {SOURCE} t.csv --format xlsx", "give --format delta, parquet or csv"),
        (f"pull {SOURCE} t.csv --version 1 --timestamp 2026-01-01T00:00:00Z", "give one"),
        (f"pull {SOURCE} t.csv --version 1 --follow", "leave out --version"),
        (f"pull {SOURCE} t/ --limit 1", "are for .parquet and .csv"),
        (f"pull {SOURCE} t.csv --column none", "there is no column 'none': there are id"),
        (f"pull {SOURCE} nowhere/t.csv", "cannot be used (No such file or directory)"),
        (f"pull {SOURCE} full/", "name a new folder"),
    ],
)
def test_what_is_not_understood_is_said(
    deltaic: Deltaic, server: AnyServer, tmp_path: Path, line: str, says: str
) -> None:
    assert server.files
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    refused = deltaic(line)
    assert refused.exit_code == 1
    assert says in refused.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_folder_of_another_table_is_left_alone(deltaic: Deltaic, server: AnyServer) -> None:
    assert server.files
    deltaic.done(f"pull {SOURCE} copy/")
    assert "is a copy of s.d.t: name a new folder" in deltaic("pull any.share#s.d.other copy/").stderr


def fetched(server: AnyServer) -> list[Any]:
    return [each for each in server.asked if each[1].startswith("/signed/")]
