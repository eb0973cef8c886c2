"""The house rules that a machine can check: lint, format, types, the direction of imports, what cold starts load."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from deltaic import errors

ROOT = Path(__file__).parent.parent
LAYER = ROOT / "functions" / "layer"
PIPELINE = ROOT / "functions" / "pipeline"
HANDLERS = sorted((ROOT / "functions").glob("api/*/app.py"))
PAGES = [ROOT / "functions" / name / "app.py" for name in ("activation", "explore")]

ALLOWED_IMPORTS = """\
delta_sharing_conformance
delta_sharing_pull   delta_sharing_conformance
deltaic
  .aws_codes
  .compute
  .errors
  .lru
  .pages
  .platform_limits
  .snapstart
  .table_features
  .timestamps
  .delta             .compute .errors .lru .table_features .timestamps
  .protocol          .errors .table_features .timestamps
  .pruning           .compute
  .settings          .platform_limits
  .urls              .errors
  .iceberg           .compute .delta.deletion_vectors .delta.schema_string .delta.store .errors .pruning
  .iceberg_source    .compute .delta .errors .iceberg .lru .pruning
  .identity          .errors .urls
  .partition_filters .compute .errors .pruning
  .storage           .aws_codes .compute .delta.store .errors .settings .urls
  .catalog           .aws_codes .errors .partition_filters .protocol.names .settings .snapstart .storage.aws_client
                     .storage.endpoints .storage.locations .urls
  .sharing           .catalog .compute .delta .errors .iceberg .iceberg_source .lru .partition_filters
                     .platform_limits .protocol .pruning .settings .storage
  .scheduled         .catalog .delta .errors .partition_filters .protocol .sharing.iceberg_tables .storage
  .sign_in           .catalog .errors .identity .settings .snapstart .storage.kms_key
  .http              .errors .pages .platform_limits .protocol .settings .sharing .sign_in .snapstart .storage
deltaic_checkpoint   deltaic.catalog deltaic.delta deltaic.errors deltaic.storage deltaic.table_features
deltaic_terminal
deltaic_pipeline
  .entry
  .failures          deltaic.errors
  .spark             .failures deltaic_terminal
  .job_command       .failures .spark deltaic.errors deltaic_terminal
  .table             .failures .spark deltaic.catalog deltaic.delta deltaic.errors deltaic.protocol deltaic.settings
                     deltaic.storage deltaic_terminal
  .arguments         .failures .table deltaic_terminal
  .maintenance       .failures .spark .table deltaic.catalog deltaic.delta deltaic.errors deltaic.protocol
                     deltaic.pruning deltaic.storage deltaic_terminal
  .usage_log         .failures .spark .table deltaic.catalog deltaic.storage deltaic_terminal
  .view_refresh      .failures .spark .table deltaic.catalog deltaic.errors deltaic.partition_filters
                     deltaic.protocol deltaic_terminal
  .maintain          .arguments .failures .job_command .maintenance .spark .table deltaic.delta deltaic.settings
                     deltaic_terminal
  .publish           .arguments .failures .job_command .spark .table deltaic.errors deltaic_terminal
  .usage             .arguments .failures .job_command .spark .table .usage_log deltaic.errors deltaic.settings
                     deltaic_terminal
  .views             .arguments .failures .job_command .spark .table .view_refresh deltaic.catalog deltaic.errors
                     deltaic_terminal
deltaic_datasets
  .file              deltaic.errors deltaic.protocol deltaic_pipeline.failures deltaic_pipeline.spark
                     deltaic_pipeline.table deltaic_terminal
  .run               deltaic_datasets .file deltaic.errors deltaic.settings deltaic_pipeline
                     deltaic_pipeline.arguments deltaic_pipeline.failures deltaic_pipeline.job_command
                     deltaic_pipeline.spark deltaic_pipeline.table deltaic_terminal
deltaic_ops
  .deploy            deltaic.catalog deltaic.errors deltaic.settings
  .usage             deltaic.catalog deltaic.errors deltaic_pipeline.spark deltaic_terminal
  .inspection        delta_sharing_pull deltaic.aws_codes deltaic.catalog deltaic.delta deltaic.errors
                     deltaic.iceberg deltaic.partition_filters deltaic.protocol deltaic.pruning deltaic.sharing
                     deltaic.storage deltaic_pipeline.view_refresh
  .jobs              .deploy deltaic deltaic.catalog deltaic.errors deltaic_datasets deltaic_datasets.file
                     deltaic_pipeline deltaic_pipeline.entry deltaic_pipeline.failures deltaic_pipeline.spark
                     deltaic_terminal
  .local             .deploy deltaic.catalog deltaic.errors deltaic.http.asgi deltaic.http.observability
                     deltaic.storage deltaic.urls
  .declared          .inspection deltaic.catalog deltaic.errors deltaic.identity deltaic.partition_filters
                     deltaic.protocol deltaic.storage deltaic_datasets.file deltaic_terminal
  .rights            .inspection delta_sharing_conformance deltaic.catalog deltaic.delta deltaic.errors
                     deltaic.protocol deltaic.scheduled deltaic.sharing deltaic.sign_in deltaic.storage
  .load              deltaic.catalog deltaic.errors deltaic.protocol
  .checks            .deploy .inspection .local .rights .usage delta_sharing_conformance deltaic.catalog deltaic.errors
                     deltaic.pages deltaic.partition_filters deltaic.scheduled deltaic.storage
                     deltaic_pipeline.usage_log deltaic_pipeline.view_refresh
  .console           .checks .inspection .local .rights .usage delta_sharing_pull deltaic.catalog deltaic.delta
                     deltaic.errors deltaic.protocol deltaic.sharing
                     deltaic_pipeline.spark deltaic_pipeline.table deltaic_pipeline.view_refresh deltaic_terminal
  .localstack        .deploy .local deltaic.catalog deltaic.errors deltaic_terminal
  .cli               .checks .console .declared .deploy .inspection .jobs .load .local .localstack .rights .usage
                     delta_sharing_conformance delta_sharing_pull deltaic deltaic_datasets.file deltaic_datasets.run
                     deltaic_pipeline deltaic_terminal
supply               deltaic_ops.deploy
bench                deltaic deltaic_datasets.file deltaic_datasets.run deltaic_ops.checks deltaic_ops.deploy
                     deltaic_ops.local deltaic_pipeline deltaic_terminal
"""
"""The packages, and what the modules of each can import besides their own package.

A name that begins with a dot belongs to the same top-level package. A longer name, as `.delta.store`, allows one module
only. Packages stand below everything that they import, so no import runs in a circle.
"""

ROOTS = {
    "deltaic": LAYER,
    "deltaic_checkpoint": ROOT / "functions" / "maintenance" / "checkpoint",
    "deltaic_terminal": ROOT / "infra",
    "deltaic_pipeline": PIPELINE,
    "deltaic_datasets": PIPELINE,
    "delta_sharing_conformance": ROOT / "infra" / "delta_sharing_conformance",
    "delta_sharing_pull": ROOT / "infra" / "delta_sharing_pull",
    "deltaic_ops": ROOT / "infra",
    "supply": ROOT / "infra",
    "bench": ROOT / "infra",
}
"""The top-level packages outside tests, and the folders on the import path that hold them."""

SEPARATE = {"delta_sharing_conformance", "delta_sharing_pull", "supply", "bench"}
"""Packages with names of their own: they are installed alone, or only measure."""


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], pytest.param(["mypy"], marks=pytest.mark.slow)],
    ids=["lint", "format", "types"],
)
def test_lint_format_and_types_pass(command: list[str]) -> None:
    tool = Path(sys.executable).parent / command[0]
    done = subprocess.run([tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def modules_of(top: str) -> dict[str, Path]:
    """Return the modules of a top-level package by their dotted names."""
    paths = (ROOTS[top] / top).rglob("*.py")
    names = {path: ".".join(path.relative_to(ROOTS[top]).with_suffix("").parts) for path in paths}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


@cache
def all_modules() -> dict[str, Path]:
    """Return the modules of every top-level package."""
    return {name: path for top in ROOTS for name, path in modules_of(top).items()}


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return the syntax nodes of a module."""
    return tuple(ast.walk(tree(path)))


@cache
def imported_modules(path: Path) -> set[str]:
    """Return the modules of the product that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = {name for each in node.names if (name := f"{node.module}.{each.name}") in all_modules()}
            names |= submodules or {node.module}
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
    return names & all_modules().keys()


@cache
def allowed_imports() -> dict[str, set[str]]:
    """Return the table by full names of packages, in its order."""
    allowed: dict[str, set[str]] = {}
    package = top = ""
    for line in ALLOWED_IMPORTS.splitlines():
        fields = line.split()
        if not line.startswith(" " * 20):
            name, *fields = fields
            top = top if name.startswith(".") else name
            package = top + name if name.startswith(".") else name
        allowed.setdefault(package, set()).update(top + name_ if name_.startswith(".") else name_ for name_ in fields)
    return allowed


def package_of(module: str) -> str:
    """Return the package of the table that a module belongs to; empty if there is none."""
    parts = module.split(".")
    return next((name for n in (2, 1) if (name := ".".join(parts[:n])) in allowed_imports()), "")


@pytest.mark.parametrize("top", ROOTS)
def test_packages_import_only_allowed_packages(top: str) -> None:
    modules = modules_of(top)
    assert modules
    wrong = []
    for module, path in modules.items():
        package = package_of(module)
        for name in sorted(imported_modules(path)):
            allowed = allowed_imports()[package]
            if package_of(name) != package and not any(name == each or name.startswith(f"{each}.") for each in allowed):
                wrong.append(f"{module} imports {name}")
    assert not wrong, f"ALLOWED_IMPORTS of this file does not allow: {wrong}"


def test_request_handlers_do_not_import_catalog_administration() -> None:
    answering = ("deltaic.http", "deltaic.sharing", "deltaic.sign_in")
    modules = {name: path for name, path in modules_of("deltaic").items() if name.startswith(answering)}
    imported = [(name, each) for name, path in modules.items() for each in sorted(imported_modules(path))]
    assert "deltaic.catalog.reader" in {each for _, each in imported}
    assert [pair for pair in imported if pair[1].startswith("deltaic.catalog.admin")] == []


def test_the_table_of_imports_lists_packages_above_their_imports() -> None:
    unknown = allowed_imports().keys() - all_modules().keys()
    assert not unknown, f"remove the rows of packages that do not exist: {unknown}"
    earlier: list[str] = []
    for package, allowed in allowed_imports().items():
        missing = [each for each in allowed if not any(f"{each}.".startswith(f"{below}.") for below in earlier)]
        assert not missing, f"{package} stands above {missing}"
        earlier.append(package)


def test_the_table_of_imports_has_no_unused_entries() -> None:
    used: dict[str, set[str]] = {package: set() for package in allowed_imports()}
    for top in ROOTS:
        for module, path in modules_of(top).items():
            used[package_of(module)] |= imported_modules(path)
    unused = [
        f"{package}: {each}"
        for package, allowed in allowed_imports().items()
        for each in allowed
        if not any(name == each or name.startswith(f"{each}.") for name in used[package])
    ]
    assert not unused, f"remove from the rows of ALLOWED_IMPORTS of this file what no module imports: {unused}"


def loaded_before_snapshots() -> set[str]:
    """Return the modules that functions name in calls of load_before_snapshot, or in a list BEFORE_SNAPSHOT."""
    values: list[ast.expr] = []
    for node in (node for path in modules_of("deltaic").values() for node in nodes_of(path)):
        match node:
            case ast.Call(func=ast.Name(id="load_before_snapshot"), args=names):
                values += names
            case ast.AnnAssign(target=ast.Name(id="BEFORE_SNAPSHOT"), value=ast.Tuple(elts=names)):
                values += names
    return {value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)}


def test_modules_in_strings_exist() -> None:
    for names in (NEVER, loaded_before_snapshots()):
        ours = {name for name in names if name.startswith("deltaic.")}
        assert ours
        missing = ours - all_modules().keys()
        assert not missing, (
            f"NEVER of this file, or BEFORE_SNAPSHOT of a module, names modules that do not exist: {missing}"
        )


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
@pytest.mark.parametrize("top", ROOTS)
def test_there_are_no_circular_imports(top: str, depth: int) -> None:
    """Neither between modules nor between folders of any depth."""

    def node(module: str) -> str:
        return ".".join(module.split(".")[:depth])

    paths = modules_of(top)
    order: TopologicalSorter[str] = TopologicalSorter()
    for module, path in paths.items():
        # Importing a module also imports its package, which is not a separate edge.
        targets = {node(name) for name in imported_modules(path) & paths.keys() if not module.startswith(f"{name}.")}
        order.add(node(module), *(targets - {node(module)}))
    order.prepare()  # raises CycleError, naming the circle


def test_a_large_package_has_a_long_docstring() -> None:
    """A package of more than eight modules needs ten lines: its purpose, an example by module, its limits."""
    modules = all_modules()
    below = Counter(name.rpartition(".")[0] for name in modules)
    large = {name for name, count in below.items() if name and count > 8}
    assert large
    pages = {name: ast.get_docstring(tree(modules[name])) or "" for name in large}
    short = sorted(name for name, page in pages.items() if len(page.splitlines()) < 8)
    assert not short, f"list the modules of these packages in the docstring of __init__.py: {short}"


def loaded_by(modules: Iterable[str]) -> set[str]:
    """Return the top-level modules that a process has loaded after it imported some."""
    script = f"import json, sys, {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return {name.split(".")[0] for name in json.loads(done.stdout)}


def test_files_of_datasets_are_checked_without_spark_and_aws() -> None:
    modules = [name for name in modules_of("deltaic_datasets") if name.startswith("deltaic_datasets.file.")]
    assert loaded_by(modules) & {"pyspark", "delta", "boto3"} == set()


def test_the_terminal_package_needs_neither_aws_nor_spark() -> None:
    loaded = loaded_by(modules_of("deltaic_terminal"))
    assert loaded & {"pyspark", "delta", "boto3", "deltaic"} == set()


@pytest.mark.parametrize("top", ROOTS)
def test_a_folder_has_at_most_24_modules_and_subfolders(top: str) -> None:
    folders = Counter(path.parent for path in modules_of(top).values() if path.stem != "__init__")
    folders.update(path.parent.parent for path in modules_of(top).values() if path.stem == "__init__")
    inside = {folder: count for folder, count in folders.items() if folder not in ROOTS.values()}
    assert inside
    full = {str(folder): count for folder, count in inside.items() if count > 24}
    assert not full, f"move modules of these folders to another package or to a new subfolder: {full}"


def test_names_of_modules_and_classes_are_distinct() -> None:
    paths = [path for top in ROOTS.keys() - SEPARATE for path in modules_of(top).values() if path.stem != "__init__"]
    modules = [
        path.stem for path in paths if path != ROOT / "infra" / "deltaic_ops" / "cli" / "jobs" / "usage.py"
    ]  # named like its job
    classes = [node.name.lstrip("_") for path in paths for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
    for kind, names in (("modules", modules), ("classes", classes)):
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        assert not repeated, f"another package has {kind} of the same names, choose different ones: {repeated}"


UNCLEAR = {
    "told",
    "said",
    "came",
    "gone",
    "met",
    "some",
    "there",
    "known",
    "wanted",
    "held",
    "kept",
    "seen",
    "found",
    "asked",
}
UNCLEAR |= {
    "given",
    "one",
    "own",
    "did",
    "means",
    "beside",
    "tell",
    "say",
    "person",
    "made",
    "named",
    "lacking",
    "shown",
}
UNCLEAR |= {
    "listed",
    "opened",
    "taken",
    "whole",
    "moment",
    "place",
    "looked",
    "entered",
    "missed",
    "judged",
    "what",
    "where",
}
"""Names that do not say what a value is."""


def nodes(top: str) -> Iterator[tuple[Path, ast.AST]]:
    """Yield the syntax nodes of a top-level package, each with its file."""
    for path in modules_of(top).values():
        for node in nodes_of(path):
            yield path, node


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


@pytest.mark.parametrize("top", ROOTS)
def test_parameters_are_named_for_their_values(top: str) -> None:
    unclear = [
        f"{place(path, node)} {node.arg}"
        for path, node in nodes(top)
        if isinstance(node, ast.arg) and node.arg in UNCLEAR
    ]
    assert not unclear, f"name what the value is: {unclear}"


QUESTIONS = {
    "what",
    "who",
    "whose",
    "whether",
    "how",
    "where",
    "when",
    "which",
    "why",
    "that",
    "those",
    "it",
    "nothing",
}


@pytest.mark.parametrize("top", ROOTS)
def test_a_docstring_begins_with_a_short_line_that_says_what_it_is_about(top: str) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = {
        place(path, node): text.splitlines()[0].split()
        for path, node in nodes(top)
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    }
    wrong = [where for where, words in first.items() if len(words) > 20 or words[0].lower() in QUESTIONS]
    assert not wrong, f"begin these docstrings with a verb or a noun, in at most 20 words: {wrong}"


def test_a_handler_is_a_few_lines() -> None:
    assert HANDLERS
    assert {path.parent.name: count for path in HANDLERS if (count := len(path.read_text().splitlines())) > 40} == {}


def test_every_error_is_in_the_tree_with_its_status_and_code() -> None:
    drawn = errors.__doc__ or ""
    classes: list[type[errors.DeltaicError]] = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.DeltaicError) and value is not errors.DeltaicError
    ]
    assert classes
    for class_ in classes:
        line = next((line for line in drawn.splitlines() if f" {class_.__name__} " in line), "")
        assert f"{class_.status}  {class_.code}" in line, (
            f"{class_.__name__} is not drawn as {class_.status} {class_.code}"
        )


NEVER = {"pandas", "deltalake", "starlette", "pyarrow.dataset", "pyarrow.fs", "boto3", "sqlglot", "pyspark", "uvicorn"}
NEVER |= {
    "aws_lambda_powertools",
    "botocore",
    "pydantic",
    "deltaic.sharing.submissions",
    "deltaic.catalog.submitted_queries",
}
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
