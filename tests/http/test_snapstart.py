"""Test that a snapshot has all modules of a request, and no connections, credentials or random state."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from emulators.parts.runtime_process import runtime_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "functions" / "layer"
HANDLERS = [*sorted((ROOT / "functions").glob("api/*/app.py")), ROOT / "functions" / "authorizer" / "app.py"]
READS_LOGS = {"get_table_version", "get_table_metadata", "query_table", "get_query", "list_table_changes"}
OPENS_FOLDERS = {"create_table_credentials", "create_asset_credentials"}

# Modules in the functions' import graph that their requests never import.
FOR_STREAMS = {"zlib_ng"}
"""Imported only for long answers, which only table endpoints have."""
FOR_ASSETS = {"deltaic.catalog.asset_items"}
FOR_ICEBERG = {"deltaic.storage.server_bucket"}
FOR_ICEBERG_SOURCES = {"deltaic.sharing.iceberg_tables"}
"""Imported only for Delta Sharing clients: Iceberg clients read a table's metadata themselves."""
FOR_LARGE_TABLES = {"deltaic.storage.background_function"}
"""Imported only to generate metadata of large tables, which is rare."""
FOR_QUERIES = {"deltaic.catalog.submitted_queries", "deltaic.sharing.lines.line_cache"}
FOR_HINTS = {"deltaic.pruning.json_hints", "deltaic.pruning.skipper", "deltaic.pruning.sql_hints"}
FOR_LOG_READERS = FOR_QUERIES | {
    "deltaic.delta.cache",
    "deltaic.sharing.rights.row_filters",  # refuses credentials for filtered tables, which is rare
    "deltaic.storage.objects",
    "pyarrow",
}
FOR_TABLES = FOR_LOG_READERS | FOR_STREAMS | FOR_ICEBERG | FOR_LARGE_TABLES


def never_reached(function: str) -> set[str]:
    if function in READS_LOGS:
        return FOR_ASSETS | FOR_ICEBERG | FOR_LARGE_TABLES
    if function == "list_asset_files":
        return FOR_TABLES - {"deltaic.storage.objects"}
    if function in {*OPENS_FOLDERS, "list_assets"}:
        return FOR_TABLES
    exceptions = {
        "get_contract": FOR_STREAMS,  # it reads a file
        "authorizer": {"pyarrow"},  # it imports paths of tables, but no use case
        "load_iceberg_table": FOR_ICEBERG_SOURCES | FOR_ASSETS | FOR_QUERIES | FOR_HINTS | FOR_LARGE_TABLES,
        "sign_iceberg_request": FOR_ASSETS
        | FOR_HINTS
        | {"deltaic.partition_filters.filter_binding", "deltaic.pruning.expressions"}
        | FOR_LARGE_TABLES
        | (FOR_LOG_READERS - {"deltaic.sharing.rights.row_filters", "deltaic.storage.objects"}),
    }
    return exceptions.get(function, FOR_TABLES | FOR_ASSETS)


LAYER_ONLY = "import sys; sys.modules['numpy'] = sys.modules['pandas'] = None\n"
"""The layer has neither; where pyarrow finds them, it imports them."""
HOOKS = "from awslambdaric.lambda_runtime_hooks_runner import run_after_restore, run_before_snapshot\n"

MODULES_PROGRAM = """
import json, sys
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""

STATE_PROGRAM = """
import gc, json, os, socket, threading
from pathlib import Path
from deltaic.catalog import process_connection
from deltaic.sharing import runtime
from deltaic.sign_in import bearer

def family(descriptor):
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            return copy.family.name
    except OSError:
        return None

types = {f"{type(item).__module__}.{type(item).__qualname__}" for item in gc.get_objects()}
created = [bearer._tokens, runtime.sharing, process_connection.dynamo, runtime._queries, runtime._token_signer]
print(json.dumps({
    "sockets": sorted({family(int(name)) for name in os.listdir("/proc/self/fd")} - {None}),
    "threads": [thread.name for thread in threading.enumerate()],
    "native": sorted({(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()
                      if int(task.name) != os.getpid()}),
    "created": [function.__name__ for function in created if function.cache_info().currsize],
    "objects": sorted(name for name in types if name.endswith(("Session", "Credentials", "Client", "Store", "Stream"))
                   and name.split(".")[0] in ("botocore", "obstore", "deltaic", "aws_lambda_powertools")),
}))
"""


def run_python(handler: Path, program: str, **variables: str) -> list[Any]:
    """Run a program with the packages of the layer; return the JSON lines that it prints."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "PYTHONPATH": os.pathsep.join([str(handler.parent), str(LAYER)]),
        **variables,
    }
    run = subprocess.run(
        [sys.executable, "-c", f"{LAYER_ONLY}{program}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@cache
def snapshot(handler: Path) -> list[Any]:
    """Return modules and state of a process at the time of its snapshot."""
    program = f"import app\n{HOOKS}run_before_snapshot()\n{MODULES_PROGRAM}\n{STATE_PROGRAM}"
    return run_python(handler, program, RESPONSE_STREAMING="enabled")


@cache
def imported_late(file: str) -> frozenset[str]:
    """Return the modules that a file imports within functions."""
    names = set()
    for function in ast.walk(ast.parse(Path(file).read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    names.add(str(node.module))
    return frozenset(names)


@pytest.fixture(params=HANDLERS, ids=[path.parent.name for path in HANDLERS])
def handler(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_snapshot_has_all_modules_that_a_request_imports(handler: Path) -> None:
    modules, _ = snapshot(handler)
    late = {
        name for module, file in modules.items() if module.split(".")[0] == "deltaic" for name in imported_late(file)
    }
    assert late
    assert late - modules.keys() == never_reached(handler.parent.name)


def test_snapshot_has_no_connections_threads_or_state(handler: Path) -> None:
    state = dict(snapshot(handler)[1])
    # Mangum's event loop has a pair of Unix sockets, and Arrow's allocator has a thread that only frees memory.
    assert set(state.pop("sockets")) <= {"AF_UNIX"}
    assert set(state.pop("native")) <= {"jemalloc_bg_thd"}
    assert state == {"threads": ["MainThread"], "created": [], "objects": []}


def test_state_in_a_snapshot_would_be_detected() -> None:
    program = """
import botocore.session, socket, threading
from deltaic.sign_in.bearer import _tokens as tokens
from deltaic.storage.connections import _loop
objects = tokens(), botocore.session.get_session(), socket.socket(), _loop()
"""
    [state] = run_python(HANDLERS[0], f"{program}\n{STATE_PROGRAM}")
    assert "AF_INET" in state["sockets"]
    assert state["threads"] == ["MainThread", "deltaic-objects"]
    assert state["native"]
    assert state["created"] == ["_tokens", "dynamo"]
    assert "botocore.session.Session" in state["objects"]


@pytest.mark.parametrize("started", ["snap-start", "on-demand"])
def test_hooks_run_only_before_a_snapshot(started: str) -> None:
    with runtime_process(Path(__file__).parent / "snapshot", {"AWS_LAMBDA_INITIALIZATION_TYPE": started}) as api:
        outcome = api.invoke({}, sink=lambda _: None)
    assert outcome.mode == "whole"
    assert json.loads(outcome.body) == (started == "snap-start")


SETTINGS = {"AWS_REGION": "eu-west-1", "CATALOG_TABLE": "c", "TOKENS_TABLE": "t", "TOKEN_KEY_SECRET": "k"}
SETTINGS |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_LAMBDA_FUNCTION_NAME": "f"}
CLIENTS_PROGRAM = """
import socket
from deltaic.catalog import process_connection
from deltaic.sharing import runtime
assert not [item for item in gc.get_objects() if isinstance(item, socket.socket) and item.family == socket.AF_INET]
clients = [item.service for item in gc.get_objects() if isinstance(item, AwsClient)]
print(json.dumps(sorted(clients)))
"""


@pytest.mark.parametrize(
    ("folder", "clients"),
    [
        ("api/list_shares", ["dynamodb"]),
        ("api/get_table_version", ["dynamodb"]),
        ("api/query_table", ["dynamodb", "sts"]),
        ("api/create_table_credentials", ["dynamodb", "sts"]),
        ("authorizer", ["dynamodb"]),
    ],
)
def test_restored_process_has_the_clients_of_its_first_request(folder: str, clients: list[str]) -> None:
    imports = "import app, gc, json\nfrom deltaic.storage.aws_client import AwsClient"
    program = f"{imports}\n{HOOKS}run_after_restore()\n{CLIENTS_PROGRAM}"
    signs = {"SIGNING_ROLE_ARN": "arn:aws:iam::123456789012:role/signs"} if "sts" in clients else {}
    assert run_python(ROOT / "functions" / folder / "app.py", program, **SETTINGS, **signs) == [clients]


@pytest.mark.parametrize("folder", ["api/list_shares", "api/query_table", "authorizer"])
def test_restored_processes_have_different_random_numbers(folder: str) -> None:
    program = f"""
import json, random
import app
{HOOKS}
random.seed(7)
snapshot = random.getstate()
run_after_restore()
print(json.dumps(random.getstate() != snapshot))
"""
    assert run_python(ROOT / "functions" / folder / "app.py", program, **SETTINGS) == [True]


@pytest.mark.parametrize("folder", ["api/list_shares", "api/query_table", "authorizer"])
def test_function_loads_without_hooks(folder: str) -> None:
    program = 'import sys; sys.modules["snapshot_restore_py"] = None; import app; print(callable(app.handler) * 1)'
    assert run_python(ROOT / "functions" / folder / "app.py", program) == [1]
