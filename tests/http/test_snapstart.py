"""A snapshot holds the modules of a first request, and nothing that expires, differs or is connected."""

import json
import os
import subprocess
import sys
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

# What functions have in their code and never reach.
FOR_STREAMS = {"zlib_ng"}
"""What everything that answers has in its code, but for the authorizer; only tables have answers that are so long."""
FOR_ASSETS = {"deltaic.catalog.asset_items"}
FOR_ICEBERG = {"deltaic.storage.server_bucket"}
FOR_LARGE_TABLES = {"deltaic.storage.background_function"}
"""What has metadata made in the background: the code of everything that answers has it, and it is reached seldom."""
FOR_QUERIES = {"deltaic.catalog.submitted_queries", "deltaic.sharing.lines.line_cache"}
FOR_HINTS = {"deltaic.pruning.json_hints", "deltaic.pruning.skipper", "deltaic.pruning.sql_hints"}
FOR_READERS_OF_LOGS = FOR_QUERIES | {
    "deltaic.delta.cache",
    "deltaic.sharing.rights.row_filters",  # by which credentials are refused, but few ask for them of such a table
    "deltaic.storage.objects",
    "pyarrow",
}
OF_TABLES = FOR_READERS_OF_LOGS | FOR_STREAMS | FOR_ICEBERG | FOR_LARGE_TABLES


def never_reached(function: str) -> set[str]:
    if function in READS_LOGS:
        return FOR_ASSETS | FOR_ICEBERG | FOR_LARGE_TABLES
    if function == "list_asset_files":
        return OF_TABLES - {"deltaic.storage.objects"}
    if function in {*OPENS_FOLDERS, "list_assets"}:
        return OF_TABLES
    exceptions = {
        "get_contract": FOR_STREAMS,  # it reads a file
        "authorizer": {"pyarrow"},  # it has no use case in its code, only the paths of tables, beside which it signs
        "load_iceberg_table": FOR_ASSETS | FOR_QUERIES | FOR_HINTS | FOR_LARGE_TABLES,
        "sign_iceberg_request": FOR_ASSETS
        | FOR_HINTS
        | {"deltaic.partition_filters.filter_binding", "deltaic.pruning.expressions"}
        | FOR_LARGE_TABLES
        | (FOR_READERS_OF_LOGS - {"deltaic.sharing.rights.row_filters", "deltaic.storage.objects"}),
    }
    return exceptions.get(function, OF_TABLES | FOR_ASSETS)


HOOKS = "from awslambdaric.lambda_runtime_hooks_runner import run_after_restore, run_before_snapshot\n"

LATE = """
import ast, json, sys
from pathlib import Path

def late(module):
    tree = ast.parse(Path(module.__file__).read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield node.module

ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "deltaic"]
imported_late = {name for module in ours for name in late(module)}
print(json.dumps({"late": len(imported_late), "missing": sorted(imported_late - set(sys.modules))}))
"""

HELD = """
import gc, json, os, socket, threading
from pathlib import Path
from deltaic.catalog import connection
from deltaic.sharing import runtime
from deltaic.sign_in import bearer

def family(descriptor):
    try:
        with socket.socket(fileno=os.dup(descriptor)) as found:
            return found.family.name
    except OSError:
        return None

types = {f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in gc.get_objects()}
made = [bearer._tokens, runtime.sharing, connection.dynamo, runtime._queries, runtime._token_signer]
print(json.dumps({
    "sockets": sorted({family(int(name)) for name in os.listdir("/proc/self/fd")} - {None}),
    "threads": [thread.name for thread in threading.enumerate()],
    "native": sorted({(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()
                      if int(task.name) != os.getpid()}),
    "made": [one.__name__ for one in made if one.cache_info().currsize],
    "held": sorted(name for name in types if name.endswith(("Session", "Credentials", "Client", "Store", "Stream"))
                   and name.split(".")[0] in ("botocore", "obstore", "deltaic", "aws_lambda_powertools")),
}))
"""


def told(handler: Path, program: str, **variables: str) -> Any:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "PYTHONPATH": os.pathsep.join([str(handler.parent), str(LAYER)]),
        "OPENBLAS_NUM_THREADS": "1",  # of numpy, which the layer has not
        **variables,
    }
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(params=HANDLERS, ids=[path.parent.name for path in HANDLERS])
def handler(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_a_snapshot_holds_whatever_a_request_would_import(handler: Path) -> None:
    found = told(handler, f"import app\n{HOOKS}run_before_snapshot()\n{LATE}")
    assert found["late"]
    assert set(found["missing"]) == never_reached(handler.parent.name)


def test_nothing_is_connected_started_or_known_before_the_snapshot(handler: Path) -> None:
    found = told(handler, f"import app\n{HOOKS}run_before_snapshot()\n{HELD}", RESPONSE_STREAMING="enabled")
    # Mangum's event loop wakes itself by a pair of Unix sockets, and Arrow's allocator has a thread that only frees.
    assert set(found.pop("sockets")) <= {"AF_UNIX"}
    assert set(found.pop("native")) <= {"jemalloc_bg_thd"}
    assert found == {"threads": ["MainThread"], "made": [], "held": []}


def test_what_is_held_would_be_seen() -> None:
    program = """
import botocore.session, socket, threading
from deltaic.sign_in.bearer import _tokens as tokens
from deltaic.storage.connections import _loop
kept = tokens(), botocore.session.get_session(), socket.socket(), _loop()
"""
    found = told(HANDLERS[0], f"{program}\n{HELD}")
    assert "AF_INET" in found["sockets"]
    assert found["threads"] == ["MainThread", "deltaic-objects"]
    assert found["native"]
    assert found["made"] == ["_tokens", "dynamo"]
    assert "botocore.session.Session" in found["held"]


@pytest.mark.parametrize("started", ["snap-start", "on-demand"])
def test_aws_runs_the_hooks_before_a_snapshot_and_never_else(started: str) -> None:
    with runtime_process(Path(__file__).parent / "snapshot", {"AWS_LAMBDA_INITIALIZATION_TYPE": started}) as api:
        outcome = api.invoke({}, sink=lambda _: None)
    assert outcome.mode == "whole"
    assert json.loads(outcome.body) == (started == "snap-start")


SETTINGS = {"AWS_REGION": "eu-west-1", "CATALOG_TABLE": "c", "TOKENS_TABLE": "t", "TOKEN_KEY_SECRET": "k"}
SETTINGS |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_LAMBDA_FUNCTION_NAME": "f"}
CONNECTED = """
import socket
from deltaic.catalog import connection
from deltaic.sharing import runtime
assert not [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.family == socket.AF_INET]
clients = [one.service for one in gc.get_objects() if isinstance(one, AwsClient)]
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
def test_a_restored_process_has_the_clients_of_its_first_request(folder: str, clients: list[str]) -> None:
    imports = "import app, gc, json\nfrom deltaic.storage.aws_client import AwsClient"
    program = f"{imports}\n{HOOKS}run_after_restore()\n{CONNECTED}"
    signs = {"SIGNING_ROLE_ARN": "arn:aws:iam::123456789012:role/signs"} if "sts" in clients else {}
    assert told(ROOT / "functions" / folder / "app.py", program, **SETTINGS, **signs) == clients


@pytest.mark.parametrize("folder", ["api/list_shares", "api/query_table", "authorizer"])
def test_restored_processes_draw_other_numbers(folder: str) -> None:
    program = f"""
import json, random
import app
{HOOKS}
random.seed(7)
snapshot = random.getstate()
run_after_restore()
print(json.dumps(random.getstate() != snapshot))
"""
    assert told(ROOT / "functions" / folder / "app.py", program, **SETTINGS) is True


@pytest.mark.parametrize("folder", ["api/list_shares", "api/query_table", "authorizer"])
def test_without_awss_hooks_a_function_loads_all_the_same(folder: str) -> None:
    program = 'import sys; sys.modules["snapshot_restore_py"] = None; import app; print(callable(app.handler) * 1)'
    assert told(ROOT / "functions" / folder / "app.py", program) == 1
