"""What is shipped is listed with its licence, nothing is copyleft unsaid."""

import json
import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from deltaic_ops.deploy.sam_template import ROOT
from supply import bill_of_materials, explore_bundle
from supply.bill_of_materials import ALLOWED, COPYLEFT, PAGE, PRODUCTS, bill, licence, refused

REQUIREMENTS = {
    "layer": ROOT / "functions" / "layer" / "requirements.txt",
    "deltalake-layer": ROOT / "functions" / "maintenance" / "layer" / "requirements.txt",
}


def required(product: str) -> dict[str, str]:
    """Return what a layer's Makefile installs: versions by names."""
    return dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", REQUIREMENTS[product].read_text(), re.MULTILINE))


def listed() -> dict[tuple[str, str], tuple[str, str]]:
    """Return the page's rows: licence and products by name and version."""
    rows = (line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| "))
    return {(name, number): (said, where) for name, number, said, where in rows}


@pytest.mark.parametrize("product", REQUIREMENTS)
def test_every_package_of_a_layer_is_listed_with_the_licence_that_it_says(product: str) -> None:
    rows = listed()
    packages = required(product)
    assert packages
    for name, number in packages.items():
        said, where = rows[name, number]
        assert product in where.split(", ")
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue
        if installed == number:
            assert licence(name) == said


@pytest.mark.parametrize("product", PRODUCTS)
def test_nothing_is_copyleft_without_a_reason(product: str) -> None:
    assert refused(one["name"] for one in bill(product)["components"]) == []


def test_copyleft_is_recognised() -> None:
    used = {name for name, _ in listed()}
    assert used >= set(ALLOWED)
    assert all(COPYLEFT.search(licence(name)) for name in ALLOWED)
    assert not [name for name in ("boto3", "pydantic", "python-dateutil", "msgspec") if COPYLEFT.search(licence(name))]
    # No package of a layer may need a reason.
    assert {name for product in REQUIREMENTS for name in required(product)}.isdisjoint(ALLOWED)


@pytest.mark.parametrize("product", REQUIREMENTS)
def test_a_bill_of_materials_has_what_is_installed_with_hashes_and_licences(product: str, tmp_path: Path) -> None:
    bill_of_materials.main([str(tmp_path)])
    made = json.loads((tmp_path / f"deltaic-{product}.cdx.json").read_text())
    assert (made["bomFormat"], made["metadata"]["component"]["name"]) == ("CycloneDX", "deltaic")
    found = {one["name"]: one for one in made["components"]}
    assert {name: found[name]["version"] for name in required(product)} == required(product)
    for one in found.values():
        assert one["licenses"], one["name"]
        assert all(file["hashes"][0]["alg"] == "SHA-256" for file in one["externalReferences"])
    assert (tmp_path / "deltaic-wheel.cdx.json").is_file()


def test_a_forge_runs_the_release_where_it_may_only_read_and_publishes_where_nothing_of_it_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    build, release_job = workflow["jobs"]["build"], workflow["jobs"]["release"]
    assert (workflow["permissions"], build["permissions"]) == ({}, {"contents": "read"})
    assert release_job["permissions"] == {"contents": "write"}
    steps = [*build["steps"], *release_job["steps"]]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert ".ci/release" in [step.get("run") for step in build["steps"]]
    [published] = [step["run"] for step in release_job["steps"] if "run" in step]
    assert published.startswith("gh release create ")
    assert not [step for step in release_job["steps"] if "checkout" in step.get("uses", "")]


def test_whoever_fetches_uv_by_pip_checks_its_hash() -> None:
    texts = [
        path.read_text()
        for folder in (".ci", ".github/workflows")
        for path in (ROOT / folder).iterdir()
        if path.is_file()
    ]
    fetched = [line for text in texts for line in text.splitlines() if "pip install" in line]
    assert len(fetched) == 3
    assert all("--require-hashes" in line for line in fetched)
    assert re.search(
        r"^uv==[\d.]+ \\\n    --hash=sha256:[0-9a-f]{64}", (ROOT / ".ci" / "uv.txt").read_text(), re.MULTILINE
    )


def test_the_release_runs_modules_that_are_there() -> None:
    release = ROOT / ".ci" / "release"
    assert release.stat().st_mode & 0o111
    named = re.findall(r"python -m ([\w.]+)", release.read_text())
    assert named
    assert [module for module in named if find_spec(module) is None] == []


def test_the_pages_one_file_of_others_is_made_by_the_lock_that_is_here() -> None:
    made = explore_bundle.BUNDLE.read_text(encoding="utf-8")
    assert made.startswith(explore_bundle.banner()), "run `uv run python -m supply.explore_bundle`"
    assert "WebAssembly" not in made
    asked = json.loads((explore_bundle.FOLDER / "package.json").read_text())["dependencies"]
    assert asked == {name: number for name, number, _ in explore_bundle.packages()}
    rows = listed()
    for name, number, said in explore_bundle.packages():
        assert rows[name, number] == (said, explore_bundle.PRODUCT)
        assert said == "MIT"


def test_every_package_of_the_page_is_held_to_its_hash() -> None:
    locked = json.loads(explore_bundle.LOCK.read_text())["packages"]
    assert all(one["integrity"].startswith("sha512-") for path, one in locked.items() if path)
