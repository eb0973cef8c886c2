"""Code outside tests stays within the lines that `size_budget.toml` permits."""

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUDGET = tomllib.loads(Path(__file__).with_name("size_budget.toml").read_text())
ABOVE = {"functions/layer/deltaic", "functions/pipeline", "infra", "infra/deltaic_ops"}
"""Folders whose subfolders are packages with separate budgets."""

REMEDY = "shorten the code, or raise the number in tests/size_budget.toml and say next to it which user gains what"


def package_of(path: Path) -> str:
    """Return the folder that a module's lines are counted for."""
    folder = path.parent
    while folder.parent.as_posix() not in ABOVE and folder.parent.parent != Path():
        folder = folder.parent
    return folder.as_posix()


def lines_by_package() -> Counter[str]:
    lines: Counter[str] = Counter()
    for top in ("functions", "infra"):
        for path in (ROOT / top).rglob("*.py"):
            if ".aws-sam" not in path.parts:
                lines[package_of(path.relative_to(ROOT))] += path.read_bytes().count(b"\n")
    return lines


def test_no_package_exceeds_its_budget() -> None:
    permitted = BUDGET["packages"]
    lines = lines_by_package()
    differences = sorted(lines.keys() ^ permitted.keys())
    assert not differences, f"tests/size_budget.toml has a line for each package; add or remove: {differences}"
    over = {
        name: f"{count} lines, {permitted[name]} permitted" for name, count in lines.items() if count > permitted[name]
    }
    assert not over, f"{REMEDY}:\n" + "\n".join(f"{name}: {excess}" for name, excess in over.items())


def test_the_whole_and_the_core_do_not_exceed_their_budgets() -> None:
    lines = lines_by_package()
    core = sum(count for name, count in lines.items() if name.startswith(tuple(BUDGET["core_folders"])))
    total = lines.total()
    assert total <= BUDGET["total"], f"total, {total} lines: {REMEDY}"
    assert 0 < core <= BUDGET["core"], f"core, {core} lines: {REMEDY}"


def test_no_budget_is_more_than_a_tenth_above_the_code() -> None:
    """A budget that nothing comes near would permit growth that nobody decided."""
    lines = lines_by_package()
    loose = {name: most for name, most in BUDGET["packages"].items() if most > max(lines[name] * 1.1, lines[name] + 20)}
    assert not loose, f"lower these numbers in tests/size_budget.toml to the lines of the code: {loose}"
