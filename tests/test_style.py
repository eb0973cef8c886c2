"""The house rules that a machine can check: lint, format, types, the direction of imports, what cold starts load."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from deltaic import errors

ROOT = Path(__file__).parent.parent
LAYER = ROOT / "functions" / "layer"
PIPELINE = ROOT / "functions" / "pipeline"
HANDLERS = sorted((ROOT / "functions").glob("api/*/app.py"))
PAGES = [ROOT / "functions" / name / "app.py" for name in ("activation", "explore")]

# What each part of the package may import of it, besides itself.
BELOW = {
    "errors": set(),
    "urls": {"errors"},
    "aws_codes": set(),
    "compute": set(),
    "lru": set(),
    "timestamps": set(),
    "platform_limits": set(),
    "settings": {"platform_limits"},
    "table_features": set(),
    "protocol": {"errors", "timestamps", "table_features"},
    "pruning": {"compute", "errors"},
    "partition_filters": {"compute", "errors", "pruning"},
    "delta": {"compute", "errors", "lru", "timestamps", "table_features"},
    "catalog": {"errors", "urls", "aws_codes", "settings", "protocol", "partition_filters", "storage"},
    "storage": {"errors", "urls", "aws_codes", "compute", "settings", "delta"},
    "identity": {"errors", "urls"},
    "iceberg": {"compute", "errors", "pruning", "delta"},
    "sharing": {
        "compute",
        "errors",
        "lru",
        "platform_limits",
        "settings",
        "protocol",
        "pruning",
        "delta",
        "iceberg",
        "catalog",
        "identity",
        "storage",
        "partition_filters",
    },
    "pages": set(),
    "http": {"errors", "platform_limits", "settings", "protocol", "catalog", "identity", "storage", "sharing", "pages"},
}
ONLY_OF = {
    "catalog": {"protocol.names", "storage.endpoints", "storage.locations", "partition_filters"},
    "storage": {"delta.store"},
    "iceberg": {"delta.store", "delta.deletion_vectors", "delta.schema_string", "pruning"},
}
"""Where a part may use one module of another only: rules for names, endpoints and locations, the port it implements."""

PIPELINE_LEVELS = (
    {"failures"},
    {"spark"},
    {"table"},
    {"maintenance", "usage_log", "view_refresh"},
    {"command"},
    {"arguments"},
    {"publish", "maintain", "usage", "views", "entry"},
)
"""What stands at the pipeline's top: packages and modules, each of which imports those of lower levels alone."""


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], pytest.param(["mypy"], marks=pytest.mark.slow)],
    ids=["lint", "format", "types"],
)
def test_the_tree_passes(command: list[str]) -> None:
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def imports_of(path: Path) -> Iterator[str]:
    """Yield the dotted names below `deltaic` that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "deltaic":
            below = node.module.partition(".")[2]
            yield from [f"{below}.{name.name}" for name in node.names] if "." not in below else [below]
        elif isinstance(node, ast.Import):
            yield from (name.name.partition(".")[2] for name in node.names if name.name.startswith("deltaic."))


@pytest.mark.parametrize("part", BELOW)
def test_imports_run_one_way(part: str) -> None:
    package = LAYER / "deltaic" / part
    modules = sorted(package.rglob("*.py")) if package.is_dir() else [package.with_suffix(".py")]
    assert modules, f"{part} has no modules"
    wrong = []
    for module in modules:
        for name in imports_of(module):
            target = name.lstrip(".").split(".")[0]
            if target == part:
                continue
            narrow = ONLY_OF.get(part, set())
            by_module = any(name.startswith(allowed) for allowed in narrow)
            restricted = any(allowed.startswith(f"{target}.") for allowed in narrow)
            if target not in BELOW[part] or (restricted and not by_module):
                wrong.append(f"{module.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong


def imported_modules(path: Path) -> set[str]:
    """Return the modules of the package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{name.name}" for name in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


@pytest.mark.parametrize("depth", [3, 4], ids=["folders", "modules"])
@pytest.mark.parametrize(
    "package",
    [LAYER / "deltaic", PIPELINE / "deltaic_pipeline", PIPELINE / "deltaic_datasets"],
    ids=lambda path: path.name,
)
def test_no_imports_run_in_a_circle(package: Path, depth: int) -> None:
    """Neither between modules, nor where a folder of a part (`sharing/lines`) counts as one of the part's modules."""

    def node(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    paths = {".".join(path.relative_to(package.parent).with_suffix("").parts): path for path in package.rglob("*.py")}
    order: TopologicalSorter[str] = TopologicalSorter()
    for module, path in paths.items():
        order.add(node(module), *({node(one) for one in imported_modules(path) & paths.keys()} - {node(module)}))
    order.prepare()  # raises CycleError, naming the circle


def test_the_pipelines_rooms_are_few_and_import_downward() -> None:
    package = PIPELINE / "deltaic_pipeline"
    parts = {path: path.relative_to(package).with_suffix("").parts[0] for path in package.rglob("*.py")}
    levels = {part: level for level, some in enumerate(PIPELINE_LEVELS) for part in some}
    assert set(parts.values()) - {"__init__"} == levels.keys()
    assert len(levels) <= 16
    edges = {
        (part, name.split(".")[1])
        for path, part in parts.items()
        for name in imported_modules(path)
        if name.startswith("deltaic_pipeline.") and name.split(".")[1] != part
    }
    assert edges
    assert [f"{part} imports {other}" for part, other in sorted(edges) if levels[other] >= levels[part]] == []
    assert len(edges) < 60


def test_declared_datasets_import_downward_and_their_files_no_spark() -> None:
    datasets = PIPELINE / "deltaic_datasets"
    below = {name for path in (PIPELINE / "deltaic_pipeline").rglob("*.py") for name in imported_modules(path)}
    assert [name for name in sorted(below) if name.startswith("deltaic_datasets")] == []
    files = [path for path in sorted((datasets / "file").glob("*.py")) if path.stem != "__init__"]
    of_files = {name for path in files for name in imported_modules(path)}
    assert [name for name in sorted(of_files) if name.startswith(("pyspark", "delta.", "deltaic_datasets.run"))] == []
    modules = ", ".join(f"deltaic_datasets.file.{path.stem}" for path in files)
    script = f"import sys, {modules}; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_the_terminal_package_imports_no_other_of_ours_and_neither_aws_nor_spark() -> None:
    paths = sorted((ROOT / "infra" / "deltaic_terminal").glob("*.py"))
    assert paths
    imported = {name.split(".")[0] for path in paths for name in imported_modules(path)}
    assert imported - sys.stdlib_module_names == {"deltaic_terminal", "rich", "yaml"}


def test_the_console_stands_between_its_command_and_the_rooms_that_it_shows() -> None:
    operators = ROOT / "infra" / "deltaic_ops"
    room = operators / "console"
    shown = {name for path in room.rglob("*.py") for name in imported_modules(path)}
    assert [name for name in sorted(shown) if name.startswith("deltaic_ops.cli")] == []
    users = {
        path.relative_to(operators).as_posix()
        for path in operators.rglob("*.py")
        if room not in path.parents and any(one.startswith("deltaic_ops.console") for one in imported_modules(path))
    }
    assert users == {"cli/console.py"}


def test_a_name_of_a_module_or_a_class_stands_for_one_thing() -> None:
    paths = list(LAYER.glob("deltaic/**/*.py"))
    modules = [path.stem for path in paths if path.stem != "__init__"]
    trees = [ast.walk(ast.parse(path.read_text())) for path in paths]
    classes = [node.name.lstrip("_") for tree in trees for node in tree if isinstance(node, ast.ClassDef)]
    for names in (modules, classes):
        assert [name for name, times in Counter(names).items() if times > 1] == []


def test_a_handler_is_a_few_lines() -> None:
    assert HANDLERS
    assert {path.parent.name: count for path in HANDLERS if (count := len(path.read_text().splitlines())) > 40} == {}


def test_every_error_is_drawn_in_the_tree_with_its_status_and_code() -> None:
    drawn = errors.__doc__ or ""
    classes: list[type[errors.DeltaicError]] = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.DeltaicError) and value is not errors.DeltaicError
    ]
    assert classes
    for one in classes:
        line = next((line for line in drawn.splitlines() if f" {one.__name__} " in line), "")
        assert f"{one.status}  {one.code}" in line, f"{one.__name__} is not drawn as {one.status} {one.code}"


NEVER = {"pandas", "deltalake", "starlette", "pyarrow.dataset", "pyarrow.fs", "boto3", "sqlglot", "pyspark", "uvicorn"}
NEVER |= {"aws_lambda_powertools", "botocore", "pydantic", "deltaic.sharing.submissions", "deltaic.catalog.queries"}
NEVER |= {"pyarrow.compute"}
"""Loaded by no function at its start (numpy is loaded by pyarrow where it is installed; the layer ships none)."""

LOGS = {"pyarrow", "obstore"}
"""For functions that read logs."""

READS_LOGS = {"get_table_version", "get_table_metadata", "query_table", "get_query", "list_table_changes"}
READS_LOGS |= {"load_iceberg_table"}


@pytest.mark.parametrize("handler", [*HANDLERS, *PAGES], ids=lambda path: path.parent.name)
def test_a_cold_start_loads_only_what_its_function_needs(handler: Path) -> None:
    script = "import json, sys, app; print(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(handler.parent), str(LAYER)])}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout))
    forbidden = NEVER if handler.parent.name in READS_LOGS else NEVER | LOGS
    assert loaded & forbidden == set()
