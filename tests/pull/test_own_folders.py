"""Volumes, skills and models of a server of ours, by credentials and by signed URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from client.provider import SCHEMA, SHARE
from deltaic_ops.local.resources import DATA_BUCKET
from pull.test_folders import files

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Deltaic
    from client.provider import Provider

FILES = {
    "one.pdf": b"1",
    "empty": b"",
    "a b+%20.txt": b"2" * 300_000,
    "deep/er/\u00e9\u4e2d.txt": b"3",
    "SKILL.md": b"4",
}


@pytest.fixture(scope="module")
def folders(provider: Provider) -> Provider:
    """Return the server, with the same files as everything that a folder can be."""
    s3, admin = provider.client("s3"), provider.admin
    for name, content in FILES.items():
        s3.put_object(Bucket=DATA_BUCKET, Key=f"things/read-forms/{name}", Body=content)
    s3.put_object(Bucket=DATA_BUCKET, Key="things/read-forms-of-others/x", Body=b"not shared")
    place = f"s3://{DATA_BUCKET}/things/read-forms"
    admin.volumes.create(SHARE, SCHEMA, "both", place)
    admin.volumes.create(SHARE, SCHEMA, "by-dir", place, access_modes=["dir"])
    admin.volumes.create(SHARE, SCHEMA, "by-url", place, access_modes=["url"])
    admin.skills.create(SHARE, SCHEMA, "read-forms", place, facts={"description": "Reads forms."})
    admin.models.create(SHARE, SCHEMA, "churn")
    admin.models.add_version(SHARE, SCHEMA, "churn", 3, place)
    return provider


@pytest.mark.parametrize("name", ["both", "by-dir", "by-url", "read-forms", "churn/3", "churn --version 3"])
def test_a_folder_is_pulled_and_then_only_what_has_changed(
    deltaic: Deltaic, folders: Provider, tmp_path: Path, name: str
) -> None:
    name, _, options = name.partition(" ")
    line = f"pull {folders.url(name)} got {options}"
    assert deltaic.json(line)["fetched"] == len(FILES)
    assert files(tmp_path / "got") == FILES
    (tmp_path / "got" / "one.pdf").write_bytes(b"mine")
    assert deltaic.json(line)["fetched"] == 1
    assert files(tmp_path / "got") == FILES


def test_a_model_wants_a_version_and_names_are_told(deltaic: Deltaic, folders: Provider) -> None:
    assert "say which version" in deltaic(f"pull {folders.url('churn')} got").stderr
    assert "shows no skill of the name" in deltaic(f"pull {folders.url('both')} got --kind skill").stderr
    assert "does not say what a table becomes" in deltaic(f"pull {folders.url('none')} got").stderr
