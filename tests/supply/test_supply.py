"""Test that shipped packages are listed with their licences, and that copyleft has a reason."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from deltaic_ops.deploy.sam_template import ROOT
from supply import bill_of_materials, explore_bundle, provenance
from supply.bill_of_materials import PAGE, PRODUCTS, bill, licence

COPYLEFT = re.compile(r"GPL|GNU|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL|SSPL|OSL", re.IGNORECASE)
ALLOWED = set(re.findall(r"^\* \*\*(.+?)\*\*: .{20}", bill_of_materials._PAGE, re.MULTILINE))
"""Packages that may be used despite a copyleft licence; the page has the reason of each."""
REQUIREMENTS = {
    "layer": ROOT / "functions" / "layer" / "requirements.txt",
    "deltalake-layer": ROOT / "functions" / "maintenance" / "layer" / "requirements.txt",
}


def required(product: str) -> dict[str, str]:
    """Return the versions that a layer's Makefile installs, by package name."""
    return dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", REQUIREMENTS[product].read_text(), re.MULTILINE))


def listed_packages() -> dict[tuple[str, str], tuple[str, str]]:
    """Return the rows of the page: licence and products by name and version."""
    rows = (line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| "))
    return {(name, number): (licence_name, products) for name, number, licence_name, products in rows}


@pytest.mark.parametrize("product", REQUIREMENTS)
def test_every_package_of_a_layer_is_listed_with_its_licence(product: str) -> None:
    rows = listed_packages()
    packages = required(product)
    assert packages
    for name, number in packages.items():
        licence_name, products = rows[name, number]
        assert product in products.split(", ")
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue
        if installed == number:
            assert licence(name) == licence_name


@pytest.mark.parametrize("product", PRODUCTS)
def test_copyleft_packages_have_a_reason(product: str) -> None:
    licences = {component["name"]: licence(component["name"]) for component in bill(product)["components"]}
    assert "unknown" not in licences.values()
    assert {name for name, text in licences.items() if COPYLEFT.search(text)} <= ALLOWED


def test_copyleft_is_recognised() -> None:
    used = {name for name, _ in listed_packages()}
    assert used >= ALLOWED > set()
    assert all(COPYLEFT.search(licence(name)) for name in ALLOWED)
    assert not [name for name in ("boto3", "pydantic", "python-dateutil", "msgspec") if COPYLEFT.search(licence(name))]
    # The layers must not contain copyleft packages.
    assert {name for product in REQUIREMENTS for name in required(product)}.isdisjoint(ALLOWED)


@pytest.mark.parametrize("product", REQUIREMENTS)
def test_bill_of_materials_has_installed_packages_with_hashes_and_licences(product: str, tmp_path: Path) -> None:
    bill_of_materials.main(tmp_path)
    document = json.loads((tmp_path / f"deltaic-{product}.cdx.json").read_text())
    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == ("CycloneDX", "deltaic")
    components = {component["name"]: component for component in document["components"]}
    assert {name: components[name]["version"] for name in required(product)} == required(product)
    for component in components.values():
        assert component["licenses"], component["name"]
        assert all(file["hashes"][0]["alg"] == "SHA-256" for file in component["externalReferences"])
    assert (tmp_path / "deltaic-wheel.cdx.json").is_file()
    assert bill(product) == document, "two exports of one lock file differ"


def test_release_is_built_with_read_access_and_published_without_its_code() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    build, release_job = workflow["jobs"]["build"], workflow["jobs"]["release"]
    assert (workflow["permissions"], build["permissions"]) == ({}, {"contents": "read"})
    assert release_job["permissions"] == {"contents": "write", "id-token": "write", "attestations": "write"}
    [attested] = [step["with"] for step in release_job["steps"] if step.get("uses", "").startswith("actions/attest@")]
    assert attested == {"subject-checksums": "dist/SHA256SUMS"}
    steps = [*build["steps"], *release_job["steps"]]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert ".ci/release" in [step.get("run") for step in build["steps"]]
    [published] = [step["run"] for step in release_job["steps"] if "run" in step]
    assert published.startswith("gh release create ")
    assert not [step for step in release_job["steps"] if "checkout" in step.get("uses", "")]


def test_installation_of_uv_checks_its_hash() -> None:
    texts = [
        path.read_text()
        for folder in (".ci", ".github/workflows")
        for path in (ROOT / folder).iterdir()
        if path.is_file()
    ]
    installs = [line for text in texts for line in text.splitlines() if "pip install" in line]
    assert len(installs) == 3
    assert all("--require-hashes" in line for line in installs)
    assert re.search(
        r"^uv==[\d.]+ \\\n    --hash=sha256:[0-9a-f]{64}", (ROOT / ".ci" / "uv.txt").read_text(), re.MULTILINE
    )


def test_release_runs_existing_modules() -> None:
    release = ROOT / ".ci" / "release"
    assert release.stat().st_mode & 0o111
    modules = re.findall(r"python -m ([\w.]+)", release.read_text())
    assert modules
    assert [module for module in modules if find_spec(module) is None] == []


@pytest.mark.parametrize("module", ["bill_of_materials", "provenance", "stack_release"])
def test_help_of_a_script_writes_no_file(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"supply.{module}", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"Usage: python -m supply.{module}" in done.stdout
    assert not list(tmp_path.iterdir())


def test_provenance_names_every_file_with_its_digest(tmp_path: Path) -> None:
    for name in ("deltaic.whl", "SHA256SUMS", provenance.NAME):
        (tmp_path / name).write_text(name)
    document = provenance.statement(tmp_path, "c0ffee", "urn:test")
    assert (document["_type"], document["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    digests = {name: sha256(name.encode()).hexdigest() for name in ("SHA256SUMS", "deltaic.whl")}
    assert {item["name"]: item["digest"]["sha256"] for item in document["subject"]} == digests
    [source] = document["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "c0ffee"}


def test_bundle_of_the_page_matches_its_lock_file() -> None:
    bundle = explore_bundle.BUNDLE.read_text(encoding="utf-8")
    assert bundle.startswith(explore_bundle.banner()), "run `uv run python -m supply.explore_bundle`"
    assert "WebAssembly" not in bundle
    dependencies = json.loads((explore_bundle.FOLDER / "package.json").read_text())["dependencies"]
    assert dependencies == {name: number for name, number, _ in explore_bundle.packages()}
    rows = listed_packages()
    for name, number, licence_name in explore_bundle.packages():
        assert rows[name, number] == (licence_name, explore_bundle.PRODUCT)
        assert licence_name == "MIT"


def test_every_package_of_the_page_has_a_hash() -> None:
    locked = json.loads(explore_bundle.LOCK.read_text())["packages"]
    assert all(package["integrity"].startswith("sha512-") for path, package in locked.items() if path)
