"""Downloads of shared folders: changed and skipped objects, file names, and consistent content."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta_sharing_pull.folder_download import FolderDownload
from delta_sharing_pull.folder_readers import ReadableObject
from delta_sharing_pull.object_names import folded, local_path
from delta_sharing_pull.progress import Progress
from delta_sharing_pull.responses import SharedObject
from hypothesis import given
from hypothesis import strategies as st
from pull.folder_server import Folder, etag, folder_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import boto3
    from cli.conftest import Deltaic
    from deltaic_ops.local.embedded import EmbeddedAws

pytestmark = pytest.mark.slow

LINE = "pull any.share#s.d.v got"


@pytest.fixture
def volume(deltaic: Deltaic, tmp_path: Path) -> Iterator[Folder]:
    assert deltaic is not None  # this fixture changes the current folder
    with folder_server() as running:
        running.objects |= {"a/b.pdf": b"one", "a/c/d.txt": b"two", "e.pdf": b"three", "empty": b""}
        running.server.profile(tmp_path)
        yield running


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".deltaic-pull" not in path.parts
    }


def test_only_new_and_changed_objects_are_downloaded(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    got = tmp_path / "got"
    assert deltaic.json(LINE)["fetched"] == 4
    assert files(got) == volume.objects
    volume.downloads.clear()
    assert deltaic.json(LINE)["fetched"] == 0
    volume.objects |= {"e.pdf": b"other", "new": b"new"}
    assert deltaic.json(LINE)["fetched"] == 2
    assert sorted(volume.downloads) == ["e.pdf", "new"]
    (got / "new").write_bytes(b"NEW")
    (got / "empty").unlink()
    assert deltaic.json(LINE)["fetched"] == 2
    assert files(got) == volume.objects


def test_only_included_objects_are_downloaded(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    deltaic.done(f"{LINE} --include '*.pdf' --include 'emp*'")
    assert sorted(files(tmp_path / "got")) == ["a/b.pdf", "e.pdf", "empty"]
    assert sorted(volume.downloads) == ["a/b.pdf", "e.pdf"]  # an empty object needs no request


def test_incomplete_object_is_not_continued_after_it_changes(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    """Incomplete files belong to one ETag."""
    ranges: list[str] = []

    def break_off(path: str, body: bytes) -> Any:
        response = volume.answer(path, body)
        if path.startswith("/object/") and volume.downloads[-1:] == ["e.pdf"] and not ranges:
            ranges.append(volume.server.requests[-1][2].get("Range", ""))
            volume.objects["e.pdf"] = b"FOURTH!"
            return 200, b"th"
        return response

    volume.server.override = break_off
    deltaic.done(LINE)
    assert files(tmp_path / "got")["e.pdf"] == b"FOURTH!"


def test_object_that_changes_is_read_again(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    changed: list[str] = []
    del volume.objects["empty"]

    def change(path: str, body: bytes) -> Any:
        if path.startswith("/object/") and not changed:
            changed.append(path)
            volume.objects |= dict.fromkeys(volume.objects, b"later")
        return volume.answer(path, body)

    volume.server.override = change
    deltaic.done(LINE)
    assert set(files(tmp_path / "got").values()) == {b"later"}


def test_objects_with_unsafe_names_are_skipped(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    unsafe = [
        "../up",
        "/root",
        "a/../b",
        "a//b",
        "./a",
        "a\x1b[2J",
        ".deltaic-pull/lock",
        ".DELTAIC-pull/x",
        "x" * 300,
        "e.pdf/x",
    ]
    good = dict(volume.objects)
    volume.objects |= dict.fromkeys(unsafe, b"bad")
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    refused = deltaic(LINE)
    assert refused.exit_code == 1
    assert "Skipped 10 objects" in refused.stderr
    assert "\x1b" not in refused.output
    assert files(tmp_path / "got") == good
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before


def test_object_with_a_path_too_long_for_the_disk_is_skipped(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    good = dict(volume.objects)
    volume.objects["/".join(["x" * 250] * 20)] = b"1"
    refused = deltaic(LINE)
    assert (refused.exit_code, "Skipped 1 objects" in refused.stderr) == (1, True)
    assert files(tmp_path / "got") == good


def test_symbolic_link_in_the_state_folder_is_not_followed(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    state, victim = tmp_path / "got" / ".deltaic-pull", tmp_path / "victim"
    deltaic.done(LINE)
    victim.write_bytes(b"")
    name = "new.pdf"
    volume.objects[name] = b"new"
    partial = hashlib.sha256(f"{etag(b'new')} {name}".encode()).hexdigest()
    (state / f"{partial}.part").symlink_to(victim)
    assert deltaic(LINE).exit_code == 1
    assert victim.read_bytes() == b""


def test_object_without_etag_is_rejected(deltaic: Deltaic, volume: Folder) -> None:
    """Without an ETag, a file could combine old and new content."""
    volume.has_etags = False
    refused = deltaic(LINE)
    assert (refused.exit_code, "sent an invalid response" in refused.stderr) == (1, True)


@pytest.mark.parametrize("fields", [{"endpoint": "nonsense"}, {"endpoint": "http://"}, {"region": "a/b"}])
def test_invalid_credentials_are_rejected(deltaic: Deltaic, volume: Folder, fields: dict[str, Any]) -> None:
    volume.description = {"name": "v", "storageLocation": "s3://pulled/x"}
    keys = {"accessKeyId": "A", "secretAccessKey": "S", "sessionToken": "T"}
    volume.credentials = {"awsTempCredentials": keys, "expirationTime": 9_999_999_999_999, "region": "r", **fields}
    refused = deltaic(LINE)
    assert (refused.exit_code, "credentials of the server are invalid" in refused.stderr) == (1, True)


@given(st.text())
def test_local_path_stays_in_its_folder(name: str) -> None:
    path = local_path(name)
    if path is not None:
        assert path.as_posix() == name
        assert not path.is_absolute()
        assert not {"", ".", ".."} & set(name.split("/"))


def test_names_that_differ_only_in_case_or_composition_fold_to_one() -> None:
    assert folded("Stra\u00dfe/E\u0301") == folded("STRASSE/\u00c9")


def test_folder_is_downloaded_with_credentials_of_a_real_store(
    deltaic: Deltaic, volume: Folder, tmp_path: Path, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    """The volume has a storage location and no access modes, as on other OpenSharing servers."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket="pulled")
    environment = embedded_aws.environment
    volume.description = {"name": "v", "schema": "d", "share": "s", "storageLocation": "s3://pulled/some/volume"}
    keys = {"accessKeyId": environment["AWS_ACCESS_KEY_ID"], "secretAccessKey": environment["AWS_SECRET_ACCESS_KEY"]}
    volume.credentials = {
        "awsTempCredentials": {**keys, "sessionToken": environment.get("AWS_SESSION_TOKEN", "")},
        "expirationTime": 9_999_999_999_999,
        "region": environment["AWS_REGION"],
        "endpoint": embedded_aws.endpoint,
    }
    expected = {"a.txt": b"one", "b/\u00e9 +%.txt": b"two" * 100_000, "c": b""}
    for name, content in expected.items():
        s3.put_object(Bucket="pulled", Key=f"some/volume/{name}", Body=content)
    s3.put_object(Bucket="pulled", Key="some/volume/b/", Body=b"")
    s3.put_object(Bucket="pulled", Key="some/volume-of-others/x", Body=b"x")
    assert deltaic.json(LINE)["fetched"] == 3
    assert files(tmp_path / "got") == expected
    s3.put_object(Bucket="pulled", Key="some/volume/a.txt", Body=b"ONE")
    assert deltaic.json(LINE)["fetched"] == 1
    assert files(tmp_path / "got")["a.txt"] == b"ONE"
    output = json.dumps(deltaic.json(LINE))
    assert keys["secretAccessKey"] not in output


class ManyObjects:
    """A folder with `count` small objects, in pages of 100."""

    def __init__(self, count: int, progress: Progress) -> None:
        self._count = count
        self._progress = progress
        self.max_ahead = 0
        """Largest number of objects that were listed but not yet downloaded."""

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        for first in range(0, self._count, 100):
            self.max_ahead = max(self.max_ahead, first - self._progress.files)
            yield [SharedObject(f"{first}/{index}.txt", 4, f'"{index}"') for index in range(100)]

    def open(self, objects: Sequence[SharedObject], *, refresh: bool = False) -> list[ReadableObject]:
        assert not refresh
        return [ReadableObject(item, lambda start: iter([b"text"[start:]])) for item in objects]


@pytest.mark.slow
def test_listing_stays_a_few_hundred_objects_ahead_of_downloads(tmp_path: Path) -> None:
    """Memory use must not grow with the number of objects."""
    progress = Progress()
    folder = ManyObjects(2_000, progress)
    result = FolderDownload(folder, tmp_path / "got", (), progress).run()
    assert (result.fetched, progress.files) == (2_000, 2_000)
    assert 0 < folder.max_ahead < 1_000


@pytest.mark.slow
def test_killed_download_leaves_only_complete_files_and_continues(volume: Folder, tmp_path: Path) -> None:
    got, check = tmp_path / "got", tmp_path / "check.py"
    expected = {name: content.decode() for name, content in volume.objects.items()}
    check.write_text(
        f"import pathlib, sys\ngot, expected = pathlib.Path({str(got)!r}), {expected!r}\n"
        "state = got / '.deltaic-pull'\n"
        "paths = [path for path in got.rglob('*') if path.is_file() and state not in path.parents]\n"
        "actual = {path.relative_to(got).as_posix(): path.read_text() for path in paths}\n"
        "assert actual.items() <= expected.items(), actual\n"
        "assert actual == expected or sys.argv[1] == 'False', actual\n"
    )
    script = Path(__file__).with_name("killed_pulls.py")
    line = [sys.executable, str(script), str(check), "pull", f"{tmp_path}/any.share#s.d.v", str(got)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
