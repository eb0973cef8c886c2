"""Downloads from a minimal server, errors for invalid responses, and no secrets in the output."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from delta_sharing_pull.server import SharedName, SharingServer
from delta_sharing_pull.snapshot import Snapshot, SourceChanged
from pull.any_server import AnyServer, any_server
from pull.rows import rows_of_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.conftest import Deltaic

pytestmark = pytest.mark.slow

SOURCE = "any.share#s.d.t"


@pytest.fixture
def server(deltaic: Deltaic, tmp_path: Path) -> Iterator[AnyServer]:
    """Return a server with two files, with duplicate rows, and write its profile to the current folder."""
    assert deltaic is not None  # this fixture changes the current folder
    with any_server() as running:
        running.put(1, 2, 2)
        running.put(2, 3)
        running.profile(tmp_path)
        yield running


def ids(folder: Path) -> Counter[int]:
    return Counter(rows_of_folder(folder)["id"].to_pylist())


def test_response_in_parquet_format_without_end_stream_action_is_accepted(
    deltaic: Deltaic, server: AnyServer, tmp_path: Path
) -> None:
    result = deltaic.json(f"pull {SOURCE} copy/")
    assert result == {"source": "s.d.t", "target": "copy/", "version": 2, "changed": True, "files": 2}
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3])
    deltaic.done(f"pull {SOURCE} t.parquet")
    assert Counter(pq.read_table(tmp_path / "t.parquet")["id"].to_pylist()) == Counter([1, 2, 2, 2, 3])
    deltaic.done(f"pull {SOURCE} t.csv --limit 4")
    assert (tmp_path / "t.csv").read_text().splitlines() == ["id", "1", "2", "2", "2"]
    assert {method for method, *_ in server.requests} == {"GET", "POST"}


def test_existing_files_are_not_downloaded_again(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    deltaic.done(f"pull {SOURCE} copy/")
    server.put(4)
    server.requests.clear()
    deltaic.done(f"pull {SOURCE} copy/")
    assert len(downloads(server)) == 1
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3, 4])
    assert not deltaic.json(f"pull {SOURCE} copy/")["changed"]
    (deleted, *_) = sorted((tmp_path / "copy").glob("*.parquet"))
    deleted.unlink()
    deltaic.done(f"pull {SOURCE} copy/")
    assert deleted.exists()


def test_expired_urls_are_renewed(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    server.expired_generation = 1  # the URLs of the first response
    deltaic.done(f"pull {SOURCE} copy/")
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3])


def test_download_fails_if_renewed_urls_are_rejected_too(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    server.expired_generation = 1_000_000
    refused = deltaic(f"pull {SOURCE} copy/")
    assert refused.exit_code == 1
    assert "rejects a signed URL with status 403" in refused.stderr
    assert not (tmp_path / "copy" / "_delta_log").exists()


def test_table_that_changes_during_the_download_is_queried_again(
    deltaic: Deltaic, server: AnyServer, tmp_path: Path
) -> None:
    """URLs of the first response are rejected, and the next response has other files."""

    def change_table(path: str, _: bytes) -> None:
        if path.endswith("/query") and server.generation == 1:
            server.files.clear()
            server.put(7)

    server.expired_generation, server.override = 1, change_table
    assert deltaic.json(f"pull {SOURCE} copy/")["version"] == 3
    assert ids(tmp_path / "copy") == Counter([7])


def test_changed_deletion_vector_raises_source_changed(server: AnyServer) -> None:
    """Both versions have the same file id, so only the id of the deletion vector shows the difference."""
    version = 0

    def with_vector(lines: list[Any]) -> list[Any]:
        vector = {"storageType": "p", "pathOrInlineDv": f"https://store/{version}", "sizeInBytes": 1, "cardinality": 1}
        add = {"path": "https://store/file", "size": 1, "partitionValues": {}, "deletionVector": vector}
        file = {"id": "f", "deletionVectorFileId": f"v{version}", "deltaSingleAction": {"add": add}}
        return [*lines[:2], {"file": file}]

    server.change = with_vector
    with closing(SharingServer(server.endpoint, "secret-bearer")) as client:
        snapshot = Snapshot(client, SharedName(Path(), "s", "d", "t"), {})
        [file] = snapshot.files
        first = snapshot.signed_urls(file)
        assert snapshot.signed_urls(file, first).vector_url == "https://store/0"
        version = 1
        with pytest.raises(SourceChanged):
            snapshot.signed_urls(file, snapshot.signed_urls(file))


def test_incomplete_file_is_continued(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    state = tmp_path / "copy" / ".deltaic-pull"
    deltaic.done(f"pull {SOURCE} copy/")
    (file, *_) = sorted((tmp_path / "copy").glob("*.parquet"))
    (state / file.name).write_bytes(file.read_bytes()[:20])
    file.unlink()
    server.requests.clear()
    deltaic.done(f"pull {SOURCE} copy/")
    ((_, _, headers, _),) = downloads(server)
    assert headers["Range"] == "bytes=20-"
    assert ids(tmp_path / "copy") == Counter([1, 2, 2, 2, 3])


def test_output_contains_neither_token_nor_signed_urls(deltaic: Deltaic, server: AnyServer) -> None:
    server.expired_generation = 1_000_000
    for line in (f"pull {SOURCE} copy/", f"pull {SOURCE} t.csv", f"pull {SOURCE} t.csv --json"):
        output = deltaic(line).output
        assert "secret-bearer" not in output
        assert "/signed/" not in output
    for method, path, headers, _ in server.requests:
        assert ("Authorization" in headers) == (not path.startswith("/signed/")), (method, path)


def changed_lines(change: Any) -> Any:
    def apply(lines: list[Any]) -> list[Any]:
        change(lines)
        return lines

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda lines: lines.pop(0), "protocol or metaData is missing", id="no protocol"),
        pytest.param(lambda lines: lines.clear(), "protocol or metaData is missing", id="empty response"),
        pytest.param(lambda lines: lines[2]["file"].pop("size"), "url or size of a file is missing", id="no size"),
        pytest.param(lambda lines: lines[2]["file"].update(size="x"), "$.file.size", id="size is not a number"),
        pytest.param(
            lambda lines: lines[2]["file"].update(url="file:///etc/passwd"), "not http or https", id="file URL"
        ),
        pytest.param(lambda lines: lines[2]["file"].update(url="\x1b[2J"), "URL", id="invalid URL"),
        pytest.param(
            lambda lines: lines[2]["file"].update(size=7), "more than the expected 7 bytes", id="size too small"
        ),
    ],
)
@pytest.mark.parametrize("target", ["copy/", "t.csv"])
def test_invalid_response_is_rejected_and_nothing_is_written(  # noqa: PLR0917
    deltaic: Deltaic, server: AnyServer, tmp_path: Path, target: str, change: Any, message: str
) -> None:
    server.change = changed_lines(change)
    refused = deltaic(f"pull {SOURCE} {target}")
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert "\x1b" not in refused.output
    assert not (tmp_path / "t.csv").exists()
    assert not (tmp_path / "copy" / "_delta_log").exists()


def test_file_ids_are_not_used_as_file_names(deltaic: Deltaic, server: AnyServer, tmp_path: Path) -> None:
    """The server chooses the ids, so they could lead outside the folder."""
    server.change = changed_lines(lambda lines: lines[2]["file"].update(id="../../x\x1b"))
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    deltaic.done(f"pull {SOURCE} copy/")
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "does not accept the token of this profile: it was revoked, or has expired. Ask the provider"),
        (401, "status 401, X: no \\u001b[2J"),
        (403, "status 403"),
        (404, "status 404"),
        (400, "status 400"),
    ],
)
def test_error_has_the_message_of_the_server(deltaic: Deltaic, server: AnyServer, status: int, message: str) -> None:
    server.override = lambda _path, _body: (status, json.dumps({"errorCode": "X", "message": "no \x1b[2J\n"}).encode())
    refused = deltaic(f"pull {SOURCE} t.csv")
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert "\x1b" not in refused.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pull any.share t.csv", "use PROFILE#share.schema.name"),
        ("pull any.share#s.t t.csv", "use PROFILE#share.schema.name"),
        ("pull none.share#s.d.t t.csv", "Profile file none.share does not exist"),
        (f"pull {SOURCE} t", "specifies no table format"),
        (f"pull {SOURCE} t.csv --format xlsx", "or --format delta, parquet or csv"),
        (f"pull {SOURCE} t.csv --version 1 --timestamp 2026-01-01T00:00:00Z", "specify only one"),
        (f"pull {SOURCE} t.csv --version 1 --follow", "remove --version"),
        (f"pull {SOURCE} t/ --limit 1", "require a .parquet or .csv file"),
        (f"pull {SOURCE} t.csv --column none", "Column 'none' does not exist: use id"),
        (f"pull {SOURCE} nowhere/t.csv", "Folder nowhere does not exist: create it"),
        (f"pull {SOURCE} full --format csv", "full is a folder: name a file"),
        (f"pull {SOURCE} full/", "use a new folder"),
    ],
)
def test_invalid_arguments_are_reported(
    deltaic: Deltaic, server: AnyServer, tmp_path: Path, line: str, message: str
) -> None:
    assert server.files
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    refused = deltaic(line)
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_copy_of_another_table_is_not_changed(deltaic: Deltaic, server: AnyServer) -> None:
    assert server.files
    deltaic.done(f"pull {SOURCE} copy/")
    assert "has a copy of s.d.t: use a new folder" in deltaic("pull any.share#s.d.other copy/").stderr


def downloads(server: AnyServer) -> list[Any]:
    return [request for request in server.requests if request[1].startswith("/signed/")]
