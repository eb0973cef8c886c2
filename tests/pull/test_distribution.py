"""The download client as a separate distribution: its imports, and its wheel in an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from conformance.test_distribution import imported
from delta_sharing_pull.local_log import DATA_FEATURES, LOG_FEATURES
from deltaic.table_features import TABLE_FEATURES, Concerns
from deltaic_ops.deploy.sam_template import ROOT
from deltaic_ops.rights.profile_file import client_profile
from pull.any_server import any_server

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "infra" / "delta_sharing_pull"


def test_imports_are_declared_dependencies() -> None:
    modules = list(PACKAGE.rglob("*.py"))
    assert modules
    names = {name for path in modules for name in imported(path)} - sys.stdlib_module_names - {"delta_sharing_pull"}
    needs = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["dependencies"]
    distributions = {need.partition(">")[0].partition("<")[0].replace("-", "_") for need in needs}
    assert names - {"botocore"} == distributions - {"numpy"}  # boto3 brings botocore; numpy's version is only limited


def test_client_and_server_support_the_same_reader_features() -> None:
    features = {feature.name: feature.concerns for feature in TABLE_FEATURES}
    assert set(DATA_FEATURES) == {name for name, concerns in features.items() if concerns is Concerns.DATA}
    assert set(LOG_FEATURES) == {name for name, concerns in features.items() if concerns is Concerns.LOG}


HEAVY = {"pandas", "delta_sharing", "numpy", "pyarrow", "httpx", "boto3"}
NEEDED = {
    "--help": set(),
    "any.share#s.d.t copy/": {"httpx"},
    "any.share#s.d.t t.csv": {"httpx", "pyarrow", "numpy"},  # pyarrow imports numpy if it is installed
    "any.share#s.d.t t.parquet": {"httpx", "pyarrow", "numpy"},
}


@pytest.mark.parametrize("arguments", NEEDED)
def test_download_imports_only_what_it_needs(tmp_path: Path, arguments: str) -> None:
    """The packages would take most of the command's time."""
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n'))\n"
        "from delta_sharing_pull.command import main\n"
        "main()"
    )
    with any_server() as server:
        server.put(1, 2)
        server.profile(tmp_path)
        line = [sys.executable, "-c", script, *arguments.split()]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert HEAVY & set(done.stdout.splitlines()) == NEEDED[arguments]


def test_sign_in_by_oauth_does_not_import_pandas(tmp_path: Path) -> None:
    (tmp_path / "client.share").write_text(client_profile("http://127.0.0.1:9", "http://127.0.0.1:9/t", "id", "x", ""))
    script = (
        "import sys; from pathlib import Path; from delta_sharing_pull.server import SharingServer\n"
        "SharingServer.from_profile(Path('client.share')); print('pandas' in sys.modules)\n"
        "import delta_sharing; print(delta_sharing.load_as_pandas.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "load_as_pandas"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wheels_of_client_and_conformance_kit_download_a_table(tmp_path: Path) -> None:
    for package in ("delta-sharing-conformance", "delta-sharing-pull"):
        build = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), "--package", package]
        subprocess.run(build, cwd=ROOT, check=True, timeout=120)
    wheels = sorted(map(str, tmp_path.glob("*.whl")))
    assert len(wheels) == 2
    environment = tmp_path / "venv"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(environment)], check=True, timeout=60)
    install = ["uv", "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"), *wheels]
    subprocess.run(install, check=True, timeout=300)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin" / "delta-sharing-pull"), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert "delta-sharing-pull alice.share#" in run("--help").stdout
    with any_server() as server:
        server.put(1, 2, 2)
        server.profile(tmp_path)
        for_scripts, for_people = run("any.share#s.d.t", "t.parquet", "--json"), run("any.share#s.d.t", "copy/")
        refused, missing = run("any.share#s.d.t", "t.txt", "--json"), run("none.share#s.d.t", "copy/")
    assert json.loads(for_scripts.stdout) == {
        "source": "s.d.t", "target": "t.parquet", "version": 1, "changed": True, "files": 1, "rows": 3,
    }  # fmt: skip
    assert pq.read_table(tmp_path / "t.parquet")["id"].to_pylist() == [1, 2, 2]
    assert (for_people.returncode, for_people.stderr) == (0, "copy/ is version 1 of s.d.t: 1 files\n")
    assert (tmp_path / "copy" / "_delta_log").is_dir()
    assert (refused.returncode, json.loads(refused.stderr)["errorCode"]) == (1, "INVALID_PARAMETER_VALUE")
    assert (missing.returncode, missing.stderr.partition(":")[0]) == (1, "refused")
