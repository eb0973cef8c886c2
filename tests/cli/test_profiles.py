"""The profile file: what the client needs, for one pair of eyes, and never over another file by accident."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta_sharing.protocol import DeltaSharingProfile
from deltaic.errors import Unavailable
from deltaic_ops.rights.profile_file import reserve_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.credentials.tokens import TokenStore

FILE = Path("alice.share")


def test_a_profile_follows_the_protocol_and_the_client_reads_it(filled: Deltaic, tokens: TokenStore) -> None:
    output = filled.done(f"token create alice --profile {FILE} --expires 2d")
    content = json.loads(FILE.read_text())
    token = tokens.authenticate(content["bearerToken"])
    assert content == {
        "shareCredentialsVersion": 1,
        "endpoint": "https://shares.test/delta-sharing",
        "bearerToken": content["bearerToken"],
        "expirationTime": token.expires_at.strftime("%Y-%m-%dT%H:%M:%S.0Z"),
    }
    assert timedelta(days=1.99) < token.expires_at - datetime.now(UTC) <= timedelta(days=2)
    assert FILE.stat().st_mode & 0o777 == 0o600
    assert content["bearerToken"] not in output
    profile = DeltaSharingProfile.read_from_file(str(FILE))
    assert (profile.bearer_token, profile.endpoint) == (content["bearerToken"], content["endpoint"])


def test_an_existing_file_is_replaced_only_with_force(filled: Deltaic, tokens: TokenStore) -> None:
    FILE.write_text("precious")
    FILE.chmod(0o644)
    refused = filled(f"token create alice --profile {FILE}")
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert FILE.read_text() == "precious"
    assert filled.json("token list") == []
    answer = filled.json(f"token create alice --profile {FILE} --force")
    assert answer["profile"] == str(FILE)
    assert tokens.authenticate(json.loads(FILE.read_text())["bearerToken"]).id == answer["id"]
    assert FILE.stat().st_mode & 0o777 == 0o600
    rotated = filled.json(f"token rotate alice --profile {FILE} --force")
    assert "bearerToken" not in rotated
    assert tokens.authenticate(json.loads(FILE.read_text())["bearerToken"]).id == rotated["id"]


@pytest.mark.parametrize(
    ("arguments", "variables", "remedy"),
    [
        pytest.param("--profile no/such/folder/a.share", {}, "an existing folder", id="folder"),
        pytest.param("--profile .", {}, "an existing folder", id="not-a-file"),
        pytest.param("--profile a.share", {"DELTAIC_ENDPOINT": ""}, "--endpoint", id="no-endpoint"),
        pytest.param("--profile a.share --endpoint shares.test", {}, "https://", id="no-scheme"),
        pytest.param("--expires 400d", {}, "365 days", id="too-long"),
    ],
)
def test_no_token_is_issued_if_it_cannot_be_written(
    filled: Deltaic, arguments: str, variables: dict[str, str], remedy: str
) -> None:
    refused = filled(f"token create alice {arguments}", **variables)
    assert refused.exit_code == 1
    assert remedy in refused.stderr
    assert filled.json("token list") == []


def test_the_endpoint_option_has_precedence(filled: Deltaic) -> None:
    filled.done(f"token create alice --profile {FILE} --endpoint http://127.0.0.1:8000/x/")
    assert json.loads(FILE.read_text())["endpoint"] == "http://127.0.0.1:8000/x"


def test_other_files_in_the_folder_are_neither_used_nor_kept(filled: Deltaic) -> None:
    stale = FILE.with_name(f"{FILE.name}.new")
    stale.write_text("stale")
    stale.chmod(0o666)
    filled.done(f"token create alice --profile {FILE}")
    assert FILE.stat().st_mode & 0o777 == 0o600
    assert stale.read_text() == "stale"
    assert sorted(path.name for path in Path().iterdir()) == [FILE.name, stale.name]


@pytest.mark.parametrize("exists", [True, False], ids=["to-a-file", "to-nothing"])
def test_a_symbolic_link_is_not_followed(filled: Deltaic, exists: bool) -> None:
    target = Path("target")
    if exists:
        target.write_text("precious")
    FILE.symlink_to(target)
    for verb in ("create", "rotate"):
        refused = filled(f"token {verb} alice --profile {FILE} --force")
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)
        assert "symbolic link" in refused.stderr
    assert FILE.is_symlink()
    assert (target.read_text() if target.exists() else None) == ("precious" if exists else None)
    assert filled.json("token list") == []


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("x" * 300, id="300-letters"),
        pytest.param("no/such/folder/a.share", id="no-folder"),
        pytest.param("file/a.share", id="below-a-file"),
        pytest.param("/proc/a.share", id="unwritable"),
        pytest.param("/dev/null", id="device"),
        pytest.param("''", id="no-name"),
        pytest.param("..", id="above"),
    ],
)
def test_an_unwritable_path_prints_one_line_and_creates_no_token(filled: Deltaic, path: str) -> None:
    Path("file").write_text("x")
    for verb in ("create", "rotate"):
        refused = filled(f"token {verb} alice --profile {path} --force")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.startswith("refused: ")
        assert len(refused.stderr.splitlines()) == 1
    assert filled.json("token list") == []
    assert Path("/dev/null").is_char_device()


def test_a_full_disk_leaves_no_file_and_names_the_token_to_revoke(filled: Deltaic) -> None:
    with room(100):
        refused = filled(f"token create alice --profile {FILE}")
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)
    (token,) = filled.json("token list")
    assert f"cannot write '{FILE}' (File too large), but token {token['id']} was created: revoke it" in refused.stderr
    assert list(Path().iterdir()) == []


def test_a_profile_that_cannot_be_completed_names_the_token_to_revoke(admin: CatalogAdmin) -> None:
    issued = admin.tokens.create(admin.recipients.create("alice"))
    with reserve_profile(FILE) as file:
        FILE.mkdir()  # somebody else is quicker
        with pytest.raises(Unavailable, match=f"token revoke alice {issued.token.id}"):
            file.write_profile("https://shares.test", issued)
    assert list(Path().iterdir()) == [FILE]


def test_a_token_that_cannot_be_printed_names_the_token_to_revoke(filled: Deltaic) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DELTAIC_"))}
    command: list[str | Path] = [Path(sys.executable).with_name("deltaic"), "token", "create", "alice"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment | filled.variables, check=False
        )
    assert done.returncode == 1
    (token,) = filled.json("token list")
    last = done.stderr.splitlines()[-1]
    assert f"deltaic token revoke alice {token['id']}" in last
    assert "Traceback" not in done.stderr


@contextmanager
def room(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
