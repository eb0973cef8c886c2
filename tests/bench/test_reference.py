"""Test the start of the reference server, with a Python script in place of Java."""

import json
import os
import socket
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench import reference

STORE = reference.Store("http://127.0.0.1:4711")
SHARES = reference.bench_shares({"files_100": "s3://bench/files_100"})
JAVA = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Shares(BaseHTTPRequestHandler):
    def do_GET(self):
        authorized = self.headers["Authorization"] == "Bearer " + config["authorization"]["bearerToken"]
        self.send_response(200 if authorized and self.path == "/delta-sharing/shares" else 404)
        self.end_headers()
        self.wfile.write(b"{{}}")

config = json.load(open(sys.argv[sys.argv.index("--config") + 1]))
HTTPServer((config["host"], config["port"]), Shares).serve_forever()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "built" / "lib").mkdir(parents=True)
    (tmp_path / "built" / "lib" / "server.jar").touch()
    return tmp_path / "built"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(JAVA.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program


def test_folder_without_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no jars in"):
        reference.check(tmp_path)


def test_server_is_not_started_if_other_machines_could_reach_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    with pytest.raises(RuntimeError, match="unshare --net"):
        reference.check(folder)


def test_server_can_start_with_the_loopback_interface_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo")])
    reference.check(folder)


def test_server_runs_until_the_block_ends(folder: Path, java: Path, tmp_path: Path) -> None:
    assert java.exists()
    with reference.start_server(folder, STORE, SHARES, tmp_path / "state") as server:
        assert server.client.get("/shares").nbytes == 2
        assert Path(f"/proc/{server.pid}/cmdline").read_bytes().count(str(folder).encode()) == 1
    with pytest.raises(ConnectionRefusedError):
        server.client.get("/shares")


def test_server_is_configured_to_read_and_sign_for_the_store() -> None:
    files = reference.config_files(STORE, SHARES, 4712)
    server = json.loads(files["server.yaml"])
    assert server["shares"][0]["schemas"][0]["tables"][0]["location"] == "s3a://bench/files_100"
    assert (server["port"], server["requestTimeoutSeconds"]) == (4712, 0)
    hadoop = {item.findtext("name"): item.findtext("value") for item in ET.fromstring(files["core-site.xml"])}  # noqa: S314 -- our own text
    assert hadoop["fs.s3a.endpoint"] == "http://127.0.0.1:4711"
    regions = ET.fromstring(files["com/amazonaws/regions/override/regions.xml"])  # noqa: S314 -- our own text
    assert regions.findtext(".//Hostname") == "127.0.0.1:4711"
