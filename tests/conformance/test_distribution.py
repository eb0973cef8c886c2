"""The conformance kit as a separate distribution: its imports, and its wheel in an empty environment."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conformance.conftest import Gateway
from delta_sharing_conformance.run import CHECKS
from deltaic_ops.deploy.sam_template import ROOT

KIT = ROOT / "infra" / "delta_sharing_conformance"


def imported(path: Path) -> set[str]:
    """Return the packages that a module imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    names |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return {name.split(".")[0] for name in names}


def test_kit_imports_only_the_standard_library_and_httpx() -> None:
    modules = list(KIT.rglob("*.py"))
    assert modules
    names = {name for path in modules for name in imported(path)}
    assert names - sys.stdlib_module_names == {"delta_sharing_conformance", "httpx"}
    needs = tomllib.loads((KIT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [need.partition(">")[0] for need in needs] == ["httpx"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_wheel_checks_a_server_without_other_packages(gateway: Gateway, tmp_path: Path) -> None:
    build = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), "--package", "delta-sharing-conformance"]
    subprocess.run(build, cwd=ROOT, check=True, timeout=120)
    [wheel] = tmp_path.glob("delta_sharing_conformance-*.whl")
    command = ["uvx", "--python", sys.executable, "--from", str(wheel), "delta-sharing-conformance"]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        arguments = [*command, "--profile", str(gateway.profile), "--tables", "1", *options]
        return subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    for_scripts, for_people = run("--json"), run("http://127.0.0.1:9")
    assert for_scripts.returncode == 0, for_scripts.stderr
    assert [result["check"] for result in json.loads(for_scripts.stdout)] == [check.id for check in CHECKS]
    assert for_people.returncode == 1
    assert "fails     List Shares" in for_people.stdout
    assert "          must: Respond to GET {prefix}/shares" in for_people.stdout
    assert for_people.stderr.endswith("not tried at http://127.0.0.1:9\n")
    assert gateway.token not in for_scripts.stdout + for_people.stdout
