"""Folders of objects: what is fetched, what is left, which names are taken, and that nothing is half old half new."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta_sharing_pull.answers import SharedObject
from delta_sharing_pull.folders import FolderPull
from delta_sharing_pull.object_names import folded, local_path
from delta_sharing_pull.shared_folders import OpenedObject
from delta_sharing_pull.tally import Tally
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
    assert deltaic is not None  # has made the folder the working one
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


def test_what_is_new_or_has_changed_is_fetched(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    got = tmp_path / "got"
    assert deltaic.json(LINE)["fetched"] == 4
    assert files(got) == volume.objects
    volume.fetched.clear()
    assert deltaic.json(LINE)["fetched"] == 0
    volume.objects |= {"e.pdf": b"other", "new": b"new"}
    assert deltaic.json(LINE)["fetched"] == 2
    assert sorted(volume.fetched) == ["e.pdf", "new"]
    (got / "new").write_bytes(b"NEW")
    (got / "empty").unlink()
    assert deltaic.json(LINE)["fetched"] == 2
    assert files(got) == volume.objects


def test_only_what_is_wanted_is_fetched(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    deltaic.done(f"{LINE} --include '*.pdf' --include 'emp*'")
    assert sorted(files(tmp_path / "got")) == ["a/b.pdf", "e.pdf", "empty"]
    assert sorted(volume.fetched) == ["a/b.pdf", "e.pdf"]  # of nothing there is nothing to fetch


def test_half_an_object_is_completed_if_it_is_still_the_same(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    """Each part is of one ETag: what was begun of another content is no beginning."""
    seen: list[str] = []

    def breaks(path: str, body: bytes) -> Any:
        found = volume.answer(path, body)
        if path.startswith("/object/") and volume.fetched[-1:] == ["e.pdf"] and not seen:
            seen.append(volume.server.asked[-1][2].get("Range", ""))
            volume.objects["e.pdf"] = b"FOURTH!"
            return 200, b"th"
        return found

    volume.server.told = breaks
    deltaic.done(LINE)
    assert files(tmp_path / "got")["e.pdf"] == b"FOURTH!"


def test_an_object_that_changes_is_read_anew(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    changed: list[str] = []
    del volume.objects["empty"]

    def changes(path: str, body: bytes) -> Any:
        if path.startswith("/object/") and not changed:
            changed.append(path)
            volume.objects |= dict.fromkeys(volume.objects, b"later")
        return volume.answer(path, body)

    volume.server.told = changes
    deltaic.done(LINE)
    assert set(files(tmp_path / "got").values()) == {b"later"}


def test_names_that_lead_elsewhere_are_left(deltaic: Deltaic, volume: Folder, tmp_path: Path) -> None:
    bad = [
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
    volume.objects |= dict.fromkeys(bad, b"bad")
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    refused = deltaic(LINE)
    assert refused.exit_code == 1
    assert "10 were left" in refused.stderr
    assert "\x1b" not in refused.output
    assert files(tmp_path / "got") == good
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before


def test_a_path_that_is_too_long_for_the_disk_is_left_and_stops_no_other(
    deltaic: Deltaic, volume: Folder, tmp_path: Path
) -> None:
    good = dict(volume.objects)
    volume.objects["/".join(["x" * 250] * 20)] = b"1"
    refused = deltaic(LINE)
    assert (refused.exit_code, "1 was left" in refused.stderr or "were left" in refused.stderr) == (1, True)
    assert files(tmp_path / "got") == good


def test_nothing_is_written_where_a_link_leads_that_somebody_put_there(
    deltaic: Deltaic, volume: Folder, tmp_path: Path
) -> None:
    own, victim = tmp_path / "got" / ".deltaic-pull", tmp_path / "victim"
    deltaic.done(LINE)
    victim.write_bytes(b"")
    name = "new.pdf"
    volume.objects[name] = b"new"
    part = hashlib.sha256(f"{etag(b'new')} {name}".encode()).hexdigest()
    (own / f"{part}.part").symlink_to(victim)
    assert deltaic(LINE).exit_code == 1
    assert victim.read_bytes() == b""


def test_an_object_without_an_etag_is_refused(deltaic: Deltaic, volume: Folder) -> None:
    """By it content is told from content: half old and half new would be one file."""
    volume.tells_etags = False
    refused = deltaic(LINE)
    assert (refused.exit_code, "sent an invalid answer" in refused.stderr) == (1, True)


@pytest.mark.parametrize("wrong", [{"endpoint": "nonsense"}, {"endpoint": "http://"}, {"region": "a/b"}])
def test_credentials_that_cannot_be_used_are_refused(deltaic: Deltaic, volume: Folder, wrong: dict[str, Any]) -> None:
    volume.told = {"name": "v", "storageLocation": "s3://pulled/x"}
    keys = {"accessKeyId": "A", "secretAccessKey": "S", "sessionToken": "T"}
    volume.credentials = {"awsTempCredentials": keys, "expirationTime": 9_999_999_999_999, "region": "r", **wrong}
    refused = deltaic(LINE)
    assert (refused.exit_code, "credentials cannot be used" in refused.stderr) == (1, True)


@given(st.text())
def test_a_name_stays_in_its_folder(name: str) -> None:
    found = local_path(name)
    if found is not None:
        assert found.as_posix() == name
        assert not found.is_absolute()
        assert not {"", ".", ".."} & set(name.split("/"))


def test_names_that_some_disks_do_not_tell_apart_are_one() -> None:
    assert folded("Stra\u00dfe/E\u0301") == folded("STRASSE/\u00c9")


def test_credentials_of_a_real_store_will_do(
    deltaic: Deltaic, volume: Folder, tmp_path: Path, aws_session: boto3.Session, embedded_aws: EmbeddedAws
) -> None:
    """As any OpenSharing server gives them: the volume says where it lies, and no access mode."""
    s3 = aws_session.client("s3", endpoint_url=embedded_aws.endpoint)
    s3.create_bucket(Bucket="pulled")
    known = embedded_aws.environment
    volume.told = {"name": "v", "schema": "d", "share": "s", "storageLocation": "s3://pulled/some/volume"}
    keys = {"accessKeyId": known["AWS_ACCESS_KEY_ID"], "secretAccessKey": known["AWS_SECRET_ACCESS_KEY"]}
    volume.credentials = {
        "awsTempCredentials": {**keys, "sessionToken": known.get("AWS_SESSION_TOKEN", "")},
        "expirationTime": 9_999_999_999_999,
        "region": known["AWS_REGION"],
        "endpoint": embedded_aws.endpoint,
    }
    wanted = {"a.txt": b"one", "b/\u00e9 +%.txt": b"two" * 100_000, "c": b""}
    for name, content in wanted.items():
        s3.put_object(Bucket="pulled", Key=f"some/volume/{name}", Body=content)
    s3.put_object(Bucket="pulled", Key="some/volume/b/", Body=b"")
    s3.put_object(Bucket="pulled", Key="some/volume-of-others/x", Body=b"x")
    assert deltaic.json(LINE)["fetched"] == 3
    assert files(tmp_path / "got") == wanted
    s3.put_object(Bucket="pulled", Key="some/volume/a.txt", Body=b"ONE")
    assert deltaic.json(LINE)["fetched"] == 1
    assert files(tmp_path / "got")["a.txt"] == b"ONE"
    said = json.dumps(deltaic.json(LINE))
    assert keys["secretAccessKey"] not in said


class Many:
    """A folder of so many small objects, listed by hundreds."""

    def __init__(self, count: int, tally: Tally) -> None:
        self._count = count
        self._tally = tally
        self.ahead = 0
        """How many objects were listed, at most, that had not been brought."""

    def pages(self) -> Iterator[Sequence[SharedObject]]:
        for first in range(0, self._count, 100):
            self.ahead = max(self.ahead, first - self._tally.files)
            yield [SharedObject(f"{first}/{at}.txt", 4, f'"{at}"') for at in range(100)]

    def open(self, objects: Sequence[SharedObject], *, anew: bool = False) -> list[OpenedObject]:
        assert not anew
        return [OpenedObject(one, lambda start: iter([b"text"[start:]])) for one in objects]


@pytest.mark.slow
def test_objects_are_listed_as_they_are_fetched(tmp_path: Path) -> None:
    """So that memory holds a few hundred, whatever their number."""
    tally = Tally()
    folder = Many(2_000, tally)
    done = FolderPull(folder, tmp_path / "got", (), tally).run()
    assert (done.fetched, tally.files) == (2_000, 2_000)
    assert 0 < folder.ahead < 1_000


@pytest.mark.slow
def test_a_pull_that_is_killed_anywhere_has_whole_files_and_goes_on(volume: Folder, tmp_path: Path) -> None:
    got, check = tmp_path / "got", tmp_path / "check.py"
    known = {name: content.decode() for name, content in volume.objects.items()}
    check.write_text(
        f"import pathlib, sys\ngot, known = pathlib.Path({str(got)!r}), {known!r}\n"
        "own = got / '.deltaic-pull'\n"
        "there = [path for path in got.rglob('*') if path.is_file() and own not in path.parents]\n"
        "found = {path.relative_to(got).as_posix(): path.read_text() for path in there}\n"
        "assert found.items() <= known.items(), found\n"
        "assert found == known or sys.argv[1] == 'False', found\n"
    )
    killing = Path(__file__).with_name("killed_pulls.py")
    line = [sys.executable, str(killing), str(check), "pull", f"{tmp_path}/any.share#s.d.v", str(got)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
