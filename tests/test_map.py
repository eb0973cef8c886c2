"""The map holds: template routes, endpoint folders, events and the tables of docs/ name the same things; links lead."""

import json
import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from cloudformation import transformed
from deltaic.delta import features
from deltaic.scheduled.notices import CHANGED, EXPIRING
from deltaic_ops.deploy.api import Route
from deltaic_ops.deploy.sam_template import ROOT, load_template

ENDPOINTS = sorted(path.parent.name for path in (ROOT / "functions" / "api").glob("*/app.py"))
ANSWERING = [*ENDPOINTS, "activation", "explore", "oauth", "preflight"]
TABLE_HEADER = ["endpoint", "folder", "use case", "test"]
FEATURES_HEADER = ["table feature", "parquet format", "delta format", "note"]
OPTIONAL = {"ClientCredentials": "enabled", "CorsOrigins": "*", "Iceberg": "enabled"}
"""What routes that a stack may lack depend on."""
MODES = ["enabled", "disabled"]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / page for page in ("README.md", "CONTRIBUTING.md", "tests/README.md")), *sorted(DOCS.rglob("*.md"))]
TABLE = "/shares/{share}/schemas/{schema}/tables/{table}"

# PROTOCOL.md, "REST APIs": what a client may ask for, and which folder answers.
PROTOCOL = {
    ("GET", "/shares"): "list_shares",
    ("GET", "/shares/{share}"): "get_share",
    ("GET", "/shares/{share}/schemas"): "list_schemas",
    ("GET", "/shares/{share}/schemas/{schema}/tables"): "list_tables",
    ("GET", "/shares/{share}/all-tables"): "list_all_tables",
    ("HEAD", TABLE): "get_table_version",
    ("GET", f"{TABLE}/version"): "get_table_version",
    ("GET", f"{TABLE}/metadata"): "get_table_metadata",
    ("POST", f"{TABLE}/query"): "query_table",
    ("POST", f"{TABLE}/queries/{{queryId}}"): "get_query",
    ("GET", f"{TABLE}/changes"): "list_table_changes",
    ("POST", f"{TABLE}/temporary-table-credentials"): "create_table_credentials",
}
SCHEMA = "/shares/{share}/schemas/{schema}"
VERSION = f"{SCHEMA}/models/{{model}}/versions/{{version}}"
FOLDERS = {"volume": f"{SCHEMA}/volumes/{{volume}}", "skill": f"{SCHEMA}/skills/{{skill}}", "model": VERSION}
# OpenSharing's TABLES.md, VOLUMES.md, AGENT_SKILLS.md and ML_MODELS.md, and what its README calls otherwise.
OPEN_SHARING = {
    ("GET", TABLE): "get_table",
    **{("GET", f"/shares/{{share}}/all-{kind}s"): "list_assets" for kind in FOLDERS},
    **{("GET", f"{SCHEMA}/{kind}s"): "list_assets" for kind in FOLDERS},
    **{("GET", f"{SCHEMA}/{kind}s/{{{kind}}}"): "list_assets" for kind in FOLDERS},
    ("GET", f"{SCHEMA}/models/{{model}}/versions"): "list_assets",
    ("GET", VERSION): "list_assets",
    **{("POST", f"{path}/temporary-{kind}-credentials"): "create_asset_credentials" for kind, path in FOLDERS.items()},
    ("POST", f"{VERSION}/temporary-model-version-credentials"): "create_asset_credentials",
}
OURS = {(method, f"{path}/files"): "list_asset_files" for path in FOLDERS.values() for method in ("GET", "POST")}
"""Routes of this server alone: neither protocol has them."""
NAMESPACES = "/iceberg/v1/shares/{share}/namespaces"
ICEBERG_TABLE = f"{NAMESPACES}/{{namespace}}/tables/{{table}}"
ICEBERG = {
    ("ANY", "/iceberg/v1/config"): "list_iceberg",
    ("ANY", NAMESPACES): "list_iceberg",
    ("ANY", f"{NAMESPACES}/{{namespace}}"): "list_iceberg",
    ("ANY", f"{NAMESPACES}/{{namespace}}/tables"): "list_iceberg",
    ("ANY", ICEBERG_TABLE): "list_iceberg",
    ("ANY", f"{ICEBERG_TABLE}/credentials"): "list_iceberg",
    ("ANY", f"{ICEBERG_TABLE}/sign"): "list_iceberg",
    ("ANY", "/iceberg/v1/{proxy+}"): "list_iceberg",
    ("GET", ICEBERG_TABLE): "load_iceberg_table",
    ("GET", f"{ICEBERG_TABLE}/credentials"): "load_iceberg_table",
    ("POST", f"{ICEBERG_TABLE}/sign"): "sign_iceberg_request",
}
"""Iceberg's REST catalog: its own document describes it."""
BROWSED = {**PROTOCOL, **OPEN_SHARING, **OURS}
DESCRIBED = {**BROWSED, **ICEBERG}
PUBLIC = {
    ("GET", "/activate/{secret}"): "activation",
    ("POST", "/activate/{secret}"): "activation",
    ("GET", "/explore"): "explore",
    ("GET", "/explore/{file}"): "explore",
    ("POST", "/oauth/token"): "oauth",
    ("GET", "/.well-known/{document}"): "oauth",
    **{("OPTIONS", path): "preflight" for _, path in BROWSED},
}
"""What anybody is answered, without a token."""
ROUTES = {**DESCRIBED, **PUBLIC, ("GET", "/openapi.json"): "get_contract"}
"""And the document of the described ones."""
PARAMETER = re.compile(r"\{\w+\+?\}")
STREAMED = {"query_table", "get_query", "list_table_changes"}


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def resources(mode: str) -> dict[str, dict[str, Any]]:
    """Return what CloudFormation would create."""
    return transformed(parameters={**OPTIONAL, "ResponseStreaming": mode})


@pytest.fixture(scope="module")
def body(resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the API of it."""
    api: dict[str, Any] = resources["Api"]["Properties"]["Body"]
    return api


def deployed_routes(body: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        ("ANY" if method == "x-amazon-apigateway-any-method" else method.upper(), path): operation
        for path, methods in body["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_of_the_protocol_leads_to_its_folder(mode: str) -> None:
    template = load_template(parameters={**OPTIONAL, "ResponseStreaming": mode})
    folders = {(route.method, route.path): template.functions[route.function].code.name for route in template.routes}
    unlisted, missing = folders.keys() - ROUTES.keys(), ROUTES.keys() - folders.keys()
    assert not unlisted, f"template.yaml has routes that this file does not list: add to PROTOCOL or OURS {unlisted}"
    assert not missing, f"template.yaml lacks routes: add to Events of the function (OPTIONS: of Preflight) {missing}"
    assert folders == ROUTES, "a route leads to the folder that this file lists for it"


def test_the_reader_finds_what_sam_deploys(mode: str, body: dict[str, Any]) -> None:
    template = load_template(parameters={**OPTIONAL, "ResponseStreaming": mode})
    deployed = {
        Route(
            method,
            path,
            re.findall(r"functions/\$\{(\w+)Aliaslive\}/", operation["x-amazon-apigateway-integration"]["uri"])[0],
            streamed=operation["x-amazon-apigateway-integration"].get("responseTransferMode") == "STREAM",
            public=operation["security"] == [{"NONE": []}],
        )
        for (method, path), operation in deployed_routes(body).items()
    }
    assert set(template.routes) == deployed


def test_only_the_parameter_switches_streaming(mode: str, body: dict[str, Any]) -> None:
    for route, operation in deployed_routes(body).items():
        integration = operation["x-amazon-apigateway-integration"]
        streams = mode == "enabled" and ROUTES.get(route) in STREAMED
        version, action = ("2021-11-15", "response-streaming-invocations") if streams else ("2015-03-31", "invocations")
        assert re.fullmatch(
            rf"arn:aws:apigateway:us-east-1:lambda:path/{version}/functions/\$\{{\w+Aliaslive\}}/{action}",
            integration["uri"],
        )
        assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")
        assert integration.get("responseTransferMode", "BUFFERED") == ("STREAM" if streams else "BUFFERED")
        assert integration.get("timeoutInMillis", 29000) == (900000 if streams else 29000)


def test_only_public_routes_have_no_authorizer(body: dict[str, Any]) -> None:
    for route, operation in deployed_routes(body).items():
        expected = "NONE" if route in PUBLIC else "Bearer"
        remedy = f"{route} needs authorizer {expected} in template.yaml, or a line in PUBLIC or BROWSED of this file"
        assert operation.get("security") == [{expected: []}], remedy
    assert body["components"]["securitySchemes"]["Bearer"]["x-amazon-apigateway-authorizer"]["type"] == "token"


def test_the_gateway_can_call_every_function_of_its_routes(resources: dict[str, dict[str, Any]]) -> None:
    allowed = {
        (resource["Properties"]["SourceArn"].split("/", 2)[2], resource["Properties"]["FunctionName"])
        for resource in resources.values()
        if resource["Type"] == "AWS::Lambda::Permission" and "/authorizers/" not in resource["Properties"]["SourceArn"]
    }
    assert allowed == {
        (route.method.replace("ANY", "*") + PARAMETER.sub("*", route.path), f"${{{route.function}Aliaslive}}")
        for route in load_template(parameters=OPTIONAL).routes
    }


def test_every_folder_is_a_function_of_the_template() -> None:
    folders = {function.code.resolve() for function in load_template(parameters=OPTIONAL).functions.values()}
    other_folders = {
        ROOT / "functions" / name for name in ("authorizer", "activation", "explore", "oauth", "preflight")
    }
    missing = ({ROOT / "functions" / "api" / name for name in ENDPOINTS} | other_folders) - folders
    assert not missing, f"template.yaml has no function with this CodeUri: {sorted(map(str, missing))}"
    assert all((folder / "app.py").is_file() for folder in folders)


def test_every_function_has_one_event() -> None:
    names = [function.code.name for function in load_template(parameters=OPTIONAL).functions.values()]
    events = [path.stem for path in (ROOT / "events").glob("*.json")]
    assert sorted(events) == sorted(names), "events/ has one file for each function, named after its folder"


@pytest.mark.parametrize("endpoint", ANSWERING)
def test_an_example_event_matches_a_route_of_its_function(endpoint: str) -> None:
    file = ROOT / "events" / f"{endpoint}.json"
    assert file.is_file(), f"add {name_of(file)}: a request as the gateway sends it to {endpoint}"
    event = json.loads(file.read_text())
    routes = {ROUTES.get((method, event["resource"])) for method in (event["httpMethod"], "ANY")}
    assert endpoint in routes, f"no route of this file leads from {event['resource']} to {endpoint}: PROTOCOL or OURS"
    filled = event["resource"]
    for name, value in (event["pathParameters"] or {}).items():
        filled = filled.replace(f"{{{name}}}", value)
    assert event["path"] == filled
    context = event["requestContext"]
    assert context["path"] == f"/{context['stage']}{filled}"
    assert (context["httpMethod"], context["resourcePath"]) == (event["httpMethod"], event["resource"])
    assert event["multiValueHeaders"] == {name: [value] for name, value in event["headers"].items()}
    if (event["httpMethod"], event["resource"]) in PUBLIC:
        assert "authorizer" not in context
    else:
        assert set(context["authorizer"]) >= {"recipientId", "tokenId"}
        assert load_template(parameters=OPTIONAL).authorizer.validation.search(event["headers"]["Authorization"])


def test_the_authorizers_example_event_is_of_a_token_authorizer() -> None:
    event = json.loads((ROOT / "events" / "authorizer.json").read_text())
    assert event["type"] == "TOKEN"
    assert load_template(parameters=OPTIONAL).authorizer.validation.search(event["authorizationToken"])
    assert re.fullmatch(r"arn:aws:execute-api:[\w-]+:\d{12}:\w+/delta-sharing/GET/shares", event["methodArn"])


def table_of(page: str, header: list[str]) -> dict[str, dict[str, str]]:
    """Return the rows of a page's table of that header, by their first cell; cells without their backticks."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    first = rows.index(header) + 2  # below the header stands a ruler
    below = (row for row in rows[first:])
    return {row[0]: dict(zip(header, row, strict=True)) for row in takewhile(lambda row: len(row) > 1, below)}


def endpoint_table() -> dict[str, dict[str, str]]:
    return table_of("architecture.md", TABLE_HEADER)


def row_of(endpoint: str) -> dict[str, str]:
    assert endpoint in endpoint_table(), f"the table of endpoints in docs/architecture.md lacks {endpoint}"
    return endpoint_table()[endpoint]


def test_the_page_lists_every_known_table_feature() -> None:
    rows = {
        name.strip("`"): (row["parquet format"], row["delta format"])
        for names, row in table_of("share.md", FEATURES_HEADER).items()
        for name in names.split("`, `")
    }
    misread = {name for name in features.READABLE if features.PREVIEWS.get(name, name) in features.PARQUET_MISREADS}
    assert rows == {
        **dict.fromkeys(features.READABLE, ("yes", "yes")),
        **dict.fromkeys(misread, ("refused", "yes")),
        **dict.fromkeys(features.REFUSED, ("refused", "refused")),
    }


def test_the_page_lists_the_folder_of_every_route() -> None:
    rows = {endpoint: row["folder"] for endpoint, row in endpoint_table().items()}
    expected = {f"{method} {path}": f"functions/api/{folder}" for (method, path), folder in DESCRIBED.items()}
    assert rows == expected, "the table of endpoints in docs/architecture.md"


@pytest.mark.parametrize("endpoint", [f"{method} {path}" for method, path in DESCRIBED])
def test_the_page_names_a_use_case_that_exists(endpoint: str) -> None:
    module = row_of(endpoint)["use case"]
    assert module.startswith("deltaic.sharing.")
    assert (ROOT / "functions" / "layer" / f"{module.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("endpoint", [f"{method} {path}" for method, path in DESCRIBED])
def test_the_page_names_a_test_that_exists(endpoint: str) -> None:
    assert (ROOT / row_of(endpoint)["test"]).is_file()


def test_the_page_names_every_module_below_the_packages_of_the_layer() -> None:
    sentence = re.findall(r"They all use the modules (.+?)\.\s", (DOCS / "architecture.md").read_text(), re.DOTALL)[0]
    modules = {path.stem for path in (ROOT / "functions" / "layer" / "deltaic").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", sentence)) == modules, "docs/architecture.md, below the chart"


def test_the_top_level_is_fixed() -> None:
    allowed = {"pyproject.toml", "README.md", "template.yaml", "functions", "infra", "tests", "events", "docs"}
    # A profile is what `deltaic demo` and `token create` leave where they are called; git ignores it.
    here = [path for path in Path(ROOT).iterdir() if path.suffix != ".share"]
    present = {path.name for path in here if not path.name.startswith(".")}
    assert allowed <= present
    assert present - allowed <= {
        "uv.lock",
        "samconfig.toml",
        "LICENSE",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "zensical.toml",
        "dist",
    }


def test_decisions_are_at_most_fifty_and_every_cited_one_exists() -> None:
    text = (DOCS / "decisions.md").read_text()
    numbers = re.findall(r"^\* \*\*(\d+)\. .*", text, re.MULTILINE)
    assert len(set(numbers)) == len(numbers) <= 50
    entries = text.split("\n* **")[1:]
    assert [entry for entry in entries if not re.search(r"\b(Reversible|Binding)\b", entry)] == []
    modules = [path for folder in ("functions", "infra") for path in (ROOT / folder).rglob("*.py")]
    cited = {number for path in modules for number in re.findall(r"\(decision\s(\d+)\)", path.read_text())}
    assert cited
    assert cited <= {*numbers, *re.findall(r"\((\d+)\)", text)}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_and_modules_in_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = set(
        re.findall(r"`((?:[\w.]+/)*[\w.]+\.(?:py|md|toml)|(?:functions|infra|tests|docs)(?:/[\w.]+)+)/?`", text)
    )
    rooms = (
        "",
        "functions/layer/deltaic",
        "functions/pipeline/deltaic_datasets",
        "functions/pipeline/deltaic_pipeline",
        "infra/deltaic_ops",
        "tests",
    )
    absent = sorted(name for name in names if not any((ROOT / room / name).exists() for room in rooms))
    assert not absent, f"{name_of(page)} names files that do not exist: {absent}"
    modules = set(re.findall(r"`(?:python -m )?(deltaic(?:_datasets|_pipeline|_ops)?(?:\.[a-z]\w*)+)`", text))
    modules -= {EXPIRING, CHANGED}  # names of events
    unknown = sorted(module for module in modules if not is_there(module))
    assert not unknown, f"{name_of(page)} names modules that do not exist: {unknown}"


def is_there(module: str) -> bool:
    """Return whether a module exists, or whether a module defines the name."""
    room, _, name = module.rpartition(".")
    return find_spec(module) is not None or hasattr(import_module(room), name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_existing_pages_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", outside_of_code(page)):
        path, _, heading = target.partition("#")
        path_ = (page.parent / path).resolve() if path else page
        assert path_.is_file(), target
        assert not heading or heading in headings(path_), target


def outside_of_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Return a page's anchors, as GitHub and the site make them: letters in lower case, hyphens for blanks."""
    titles = re.findall(r"^#+ (.+)$", outside_of_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_site_has_every_page_and_begins_each_with_its_title() -> None:
    nav = json.dumps(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])
    pages = [page for page in PAGES if page.is_relative_to(DOCS)]
    assert sorted(re.findall(r'"([\w/-]+\.md)"', nav)) == [page.relative_to(DOCS).as_posix() for page in pages]
    assert [page for page in pages if not page.read_text().startswith("# ")] == []


def test_private_apis_have_the_pinned_versions() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Private APIs")[2].partition("\n## ")[0]
    versions = re.findall(r"([\w-]+) (\d+\.\d+\.\d+)", section)
    lists = "".join(path.read_text() for path in (ROOT / "tests" / "emulators").glob("*.txt"))
    lock, npm = (ROOT / "uv.lock").read_text(), (ROOT / "infra" / "vendored" / "package-lock.json").read_text()
    assert versions
    for name, version in versions:
        assert f'name = "{name}"\nversion = "{version}"\n' in lock or (
            f"\n{name}=={version} " in lists or f'"node_modules/{name}": {{\n      "version": "{version}"' in npm
        ), (name, version)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160
