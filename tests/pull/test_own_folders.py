"""Downloads of volumes, skills and models of this server, by credentials and signed URLs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from client.provider import SCHEMA, SHARE
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.rights.profile_file import client_profile
from pull.test_folders import files
from served import served

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from client.provider import Provider

pytestmark = pytest.mark.slow

FILES = {
    "one.pdf": b"1",
    "empty": b"",
    "a b+%20.txt": b"2" * 300_000,
    "deep/er/\u00e9\u4e2d.txt": b"3",
    "SKILL.md": b"4",
}


@pytest.fixture(scope="module")
def folders(provider: Provider) -> Provider:
    """Share the same files as volumes, a skill and a model version, and return the server."""
    s3, admin = provider.client("s3"), provider.admin
    for name, content in FILES.items():
        s3.put_object(Bucket=DATA_BUCKET, Key=f"things/read-forms/{name}", Body=content)
    s3.put_object(Bucket=DATA_BUCKET, Key="things/read-forms-of-others/x", Body=b"not shared")
    location = f"s3://{DATA_BUCKET}/things/read-forms"
    admin.volumes.create(SHARE, SCHEMA, "both", location)
    admin.volumes.create(SHARE, SCHEMA, "by-dir", location, access_modes=["dir"])
    admin.volumes.create(SHARE, SCHEMA, "by-url", location, access_modes=["url"])
    admin.skills.create(SHARE, SCHEMA, "read-forms", location, facts={"description": "Reads forms."})
    admin.models.create(SHARE, SCHEMA, "churn")
    admin.models.add_version(SHARE, SCHEMA, "churn", 3, location)
    return provider


@pytest.mark.parametrize("name", ["both", "by-dir", "by-url", "read-forms", "churn/3", "churn --version 3"])
def test_folder_is_downloaded_and_then_only_changed_files(
    deltaic: Deltaic, folders: Provider, tmp_path: Path, name: str
) -> None:
    name, _, options = name.partition(" ")
    line = f"pull {folders.url(name)} got {options}"
    assert deltaic.json(line)["fetched"] == len(FILES)
    assert files(tmp_path / "got") == FILES
    (tmp_path / "got" / "one.pdf").write_bytes(b"mine")
    assert deltaic.json(line)["fetched"] == 1
    assert files(tmp_path / "got") == FILES


def test_model_requires_a_version_and_unknown_names_are_reported(deltaic: Deltaic, folders: Provider) -> None:
    assert "specify a version" in deltaic(f"pull {folders.url('churn')} got").stderr
    assert (
        f"has no skill {SHARE}.{SCHEMA}.both: check the name"
        in deltaic(f"pull {folders.url('both')} got --kind skill").stderr
    )
    error = deltaic(f"pull {folders.url('none')} got").stderr
    assert f"No volume, skill or model {SHARE}.{SCHEMA}.none exists, and 'got' specifies no table format" in error


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dir", "url"])
def test_watch_renews_the_tokens_of_an_oauth_client(provider: Provider, tmp_path: Path, mode: str) -> None:
    s3, issued = provider.client("s3"), provider.admin.clients.create(provider.readers["reader"].account)
    name, got, profile = f"watched-{mode}", tmp_path / "got", tmp_path / "client.share"
    endpoint, credentials = provider.endpoint, (issued.client.id, issued.secret)
    profile.write_text(client_profile(endpoint, f"{endpoint}/oauth/token", *credentials, "deltaic.read"))
    provider.admin.volumes.create(SHARE, SCHEMA, name, f"s3://{DATA_BUCKET}/{name}", access_modes=[mode])

    def put(**objects: bytes) -> None:
        for key, content in objects.items():
            s3.put_object(Bucket=DATA_BUCKET, Key=f"{name}/{key}", Body=content)

    put(one=b"1", two=b"2")
    program = Path(sys.executable).with_name("deltaic")
    line: list[Any] = [program, "pull", f"{profile}#{SHARE}.{SCHEMA}.{name}", got, "--watch", "--every", "1"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as running:
        try:
            for expected in ({"one": b"1", "two": b"2"}, {"one": b"other", "two": b"2", "three": b"3"}):
                put(**expected)
                until = time.monotonic() + 60
                while not got.exists() or files(got) != expected:
                    assert time.monotonic() < until
                    assert running.poll() is None
                    time.sleep(0.5)
            time.sleep(3)  # rounds without changes print nothing
        finally:
            running.send_signal(signal.SIGINT)
        stderr = running.communicate(timeout=60)[1]
    assert "Traceback" not in stderr
    assert 2 <= len(stderr.splitlines()) <= 3, stderr


class _Tokens(BaseHTTPRequestHandler):
    """A token endpoint that responds with `statuses` in turn, and a server with an empty volume."""

    statuses: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._respond(self.statuses.pop(0), {"access_token": "t", "expires_in": 3600})

    def do_GET(self) -> None:
        self._respond(200, {"items": [], "name": "v", "storageLocation": "s3://b/v", "accessModes": ["url"]})

    def _respond(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize(
    ("statuses", "code"),
    [pytest.param([503, 429, 200], 0, id="busy"), pytest.param([401], 1, id="refused")],
)
def test_request_to_a_busy_token_endpoint_is_repeated(
    deltaic: Deltaic, tmp_path: Path, statuses: list[int], code: int
) -> None:
    handler = type("Tokens", (_Tokens,), {"statuses": statuses})
    with served(handler) as endpoint:
        (tmp_path / "client.share").write_text(client_profile(endpoint, f"{endpoint}/token", "id", "secret", ""))
        done = deltaic("pull client.share#s.d.v got --kind volume")
    assert (done.exit_code, statuses) == (code, []), done.output
    assert ("issued no token (401)" in done.stderr) == bool(code)
