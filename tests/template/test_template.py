"""The template is valid and grants no function more than it uses."""

import json
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from cloudformation import transformed
from deltaic import errors
from deltaic_ops.deploy.intrinsics import read
from deltaic_ops.deploy.sam_template import ROOT, TEMPLATE, load_template
from template_rights import (
    BUCKETS,
    CHANGED,
    EVERYTHING,
    LOG_OBJECTS,
    OBJECTS,
    STORAGE_SECRETS,
    configured,
    granted,
    keys,
    published,
)

TOLD = load_template()
FILES = "ListAssetFiles"
LISTINGS = ["ListShares", "GetShare", "ListSchemas", "ListTables", "ListAllTables", "GetTable", "ListAssets"]
READERS = ["GetTableVersion", "GetTableMetadata", "QueryTable", "GetQuery", "ListTableChanges"]
VENDORS = ["CreateTableCredentials", "CreateAssetCredentials"]
STREAMED = ["QueryTable", "GetQuery", "ListTableChanges"]
SIGNERS = [*STREAMED, *VENDORS, FILES]
PAGED = ["ListShares", "ListSchemas", "ListTables", "ListAllTables", *STREAMED, "ListAssets", FILES]
ENDPOINTS = [*LISTINGS, *READERS, *VENDORS, FILES]
CONTRACT = "GetContract"
ACTIVATION = "Activation"
EXPLORE = "ExplorePage"
FUNCTIONS = ["Authorizer", *ENDPOINTS, CONTRACT, ACTIVATION, EXPLORE]
TOKEN_KEY = "arn:aws:secretsmanager:us-east-1:000000000000:secret:deltaic/dev/token-key-??????"


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    return transformed(parameters=BUCKETS)


def test_each_function_has_a_role_of_its_own(resources: dict[str, dict[str, Any]]) -> None:
    found = {name: said["Properties"] for name, said in resources.items() if said["Type"] == "AWS::Lambda::Function"}
    missing = set(found) - set(FUNCTIONS)
    assert not missing, f"add to LISTINGS, READERS or another list at the top of this file, by what it reads: {missing}"
    assert set(found) == set(FUNCTIONS)
    assert {name: said["Role"] for name, said in found.items()} == {name: f"${{{name}Role.Arn}}" for name in FUNCTIONS}


def test_the_authorizer_reads_tokens_and_policies_and_writes_the_mark_of_a_first_use_alone(
    resources: dict[str, dict[str, Any]],
) -> None:
    assert granted(resources, "Authorizer") == {
        ("dynamodb:GetItem", "${Tokens.Arn}"),
        ("dynamodb:Query", "${Tokens.Arn}"),
        ("dynamodb:UpdateItem", "${Tokens.Arn}"),
    }
    assert keys(resources, "Authorizer") == {
        "dynamodb:GetItem": ["token/*"],
        "dynamodb:Query": ["issuer/*"],
        "dynamodb:UpdateItem": ["recipient/*", "token/*"],
    }
    [policy] = resources["AuthorizerRole"]["Properties"]["Policies"]
    [update] = [one for one in policy["PolicyDocument"]["Statement"] if one["Action"] == "dynamodb:UpdateItem"]
    assert update["Condition"]["ForAllValues:StringEquals"] == {"dynamodb:Attributes": ["pk", "sk", "salt"]}


def test_tokens_of_minutes_are_signed_by_one_function_that_reads_clients_alone() -> None:
    with_key = transformed(parameters={**BUCKETS, "ClientCredentials": "enabled"})
    assert granted(with_key, "OAuth") == {
        ("dynamodb:GetItem", "${Tokens.Arn}"),
        ("kms:GetPublicKey", "${OAuthKey.Arn}"),
        ("kms:Sign", "${OAuthKey.Arn}"),
    }
    assert keys(with_key, "OAuth") == {"dynamodb:GetItem": ["client/*"]}
    assert granted(with_key, "Authorizer") == {
        ("dynamodb:GetItem", "${Tokens.Arn}"),
        ("dynamodb:Query", "${Tokens.Arn}"),
        ("dynamodb:UpdateItem", "${Tokens.Arn}"),
        ("kms:GetPublicKey", "${OAuthKey.Arn}"),
    }
    assert keys(with_key, "Authorizer")["dynamodb:GetItem"] == ["token/*", "client/*"]
    assert "kms:Sign" not in json.dumps(with_key["AuthorizerRole"])


def test_without_client_credentials_there_is_no_key_to_pay_for(resources: dict[str, dict[str, Any]]) -> None:
    assert [name for name in resources if "OAuth" in name] == []
    assert [name for name, said in resources.items() if said["Type"].startswith("AWS::KMS::")] == []
    paths = resources["Api"]["Properties"]["Body"]["paths"]
    assert [path for path, methods in paths.items() if "/oauth" in path and methods] == []
    assert [one.path for one in TOLD.routes if "oauth" in one.path or "well-known" in one.path] == []


def test_the_page_of_a_link_writes_tokens_and_reads_no_secrets_hash(resources: dict[str, dict[str, Any]]) -> None:
    of_tokens = {action for action, resource in granted(resources, ACTIVATION) if resource == "${Tokens.Arn}"}
    assert of_tokens == {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"}
    bound = keys(resources, ACTIVATION)
    assert bound["dynamodb:UpdateItem"] == ["recipient/*", "token/*"]
    assert bound["dynamodb:GetItem"] == ["recipient/*"]


def test_the_page_of_static_files_has_no_rights_and_can_be_left_out(resources: dict[str, dict[str, Any]]) -> None:
    assert granted(resources, EXPLORE) == set()
    without = transformed(parameters={**BUCKETS, "Explore": "disabled"})
    assert "explore" in json.dumps(resources).lower()
    assert [name for name in without if "explore" in name.lower()] == []
    paths = without["Api"]["Properties"]["Body"]["paths"]
    assert [path for path, methods in paths.items() if "explore" in path and methods] == []
    assert [one.path for one in load_template(parameters={"Explore": "disabled"}).routes if "explore" in one.path] == []


@pytest.mark.parametrize("function", ENDPOINTS)
def test_no_endpoint_reads_tokens_or_writes_anything_but_submitted_queries_and_counts(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    database = {grant for grant in granted(resources, function) if grant[0].startswith("dynamodb:")}
    assert {resource for _, resource in database} == {"${Catalog.Arn}"}
    actions = {action for action, _ in database}
    assert actions - {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"} == {"dynamodb:UpdateItem"} | (
        {"dynamodb:PutItem"} if function == "QueryTable" else set()
    )
    assert keys(resources, function)["dynamodb:UpdateItem"] == ["limits/*"]
    assert keys(resources, function).get("dynamodb:PutItem", ["query/*"]) == ["query/*"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_submitted_queries_are_read_where_they_are_made_and_answered(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    allowed = {key for bound in keys(resources, function).values() for key in bound}
    assert any(fnmatchcase("query/0a1b", key) for key in allowed) == (function in {"QueryTable", "GetQuery"})


@pytest.mark.parametrize("function", ENDPOINTS)
def test_no_endpoint_reads_what_is_the_administrators(resources: dict[str, dict[str, Any]], function: str) -> None:
    bound = keys(resources, function)
    for partition in ("recipients", "lease/s3:", "token/ab"):
        assert not [action for action, allowed in bound.items() if any(fnmatchcase(partition, key) for key in allowed)]
    assert all("storages" not in allowed for allowed in bound.values()) == (function in LISTINGS)


@pytest.mark.parametrize("function", ["Authorizer", *LISTINGS, CONTRACT])
def test_what_reads_no_table_has_no_s3(resources: dict[str, dict[str, Any]], function: str) -> None:
    assert not [grant for grant in granted(resources, function) if grant[0].startswith(("s3:", "sts:", "kms:"))]


@pytest.mark.parametrize("function", [*VENDORS, FILES])
def test_what_gives_credentials_or_urls_of_folders_reads_no_bucket_itself(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    grants = granted(resources, function)
    assert {action for action, _ in grants if not action.startswith(("dynamodb:", "secretsmanager:"))} == {
        "sts:AssumeRole",
        "sts:TagSession",
    }


@pytest.mark.parametrize("function", READERS)
def test_what_reads_tables_reads_the_logs_in_the_data_buckets_only(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    assert {grant for grant in granted(resources, function) if grant[0].startswith("s3:")} == {
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:ListBucket", "arn:aws:s3:::raw"),
        ("s3:GetObject", LOG_OBJECTS[0]),
        ("s3:GetObject", LOG_OBJECTS[1]),
    }


@pytest.mark.parametrize(
    ("key", "read"),
    [
        pytest.param("_delta_log/00000000000000000000.json", True, id="of_a_table_that_is_the_bucket"),
        pytest.param("a/t/_delta_log/_sidecars/x.parquet", True, id="sidecar"),
        pytest.param("a/t/part-00000.parquet", False, id="data"),
        pytest.param("a/t/_change_data/cdc-00000.parquet", False, id="change_data"),
        pytest.param("a/t/deletion_vector_x.bin", False, id="deletion_vector"),
    ],
)
def test_the_logs_are_what_functions_read_themselves(key: str, read: bool) -> None:
    assert fnmatchcase(f"arn:aws:s3:::lake/{key}", LOG_OBJECTS[0]) is read


def test_a_stage_reads_the_storage_keys_of_its_own_catalog_only() -> None:
    parameters = {**BUCKETS, "Stage": "storage"}
    catalog = load_template(parameters=parameters).tables["Catalog"]["TableName"]
    names = {
        f"deltaic/storage/{catalog}/minio": True,
        "deltaic/storage/deltaic-prod-catalog/minio": False,
        "deltaic/storage/token-key-AbCdEf": False,
    }
    pattern = STORAGE_SECRETS.rpartition(":")[2].replace("${Catalog}", catalog)
    assert {name: fnmatchcase(name, pattern) for name in names} == names


def test_urls_live_longer_than_spark_believes_in_their_expiry() -> None:
    # The client takes an expiry within 15 minutes for one in an hour.
    assert TEMPLATE.read_text().count("    MinValue: 1800\n") == 1


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_what_signs_assumes_the_signing_role(resources: dict[str, dict[str, Any]], function: str) -> None:
    assumed = {grant for grant in granted(resources, function) if grant[0].startswith("sts:")}
    signing = {("sts:AssumeRole", "${SigningRole.Arn}"), ("sts:TagSession", "${SigningRole.Arn}")}
    assert assumed == (signing if function in SIGNERS else set())
    assert ("SIGNING_ROLE_ARN" in TOLD.functions[function].environment) == (function in SIGNERS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_secrets_are_read_where_they_are_used(resources: dict[str, dict[str, Any]], function: str) -> None:
    secrets = {resource for action, resource in granted(resources, function) if action.startswith("secretsmanager:")}
    expected = {TOKEN_KEY} if function in PAGED else set()
    expected |= {STORAGE_SECRETS} if function in {*READERS, FILES} else set()
    assert secrets == expected
    assert ("TOKEN_KEY_SECRET" in TOLD.functions[function].environment) == (function in PAGED)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_wildcard_stands_for_actions_or_for_all_resources(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    for action, resource in granted(resources, function):
        assert "*" not in action
        assert resource != "*"


def test_the_signing_role_reads_shared_files_for_one_named_recipient(resources: dict[str, dict[str, Any]]) -> None:
    role = resources["SigningRole"]["Properties"]
    [policy] = role["Policies"]
    assert policy["PolicyDocument"]["Statement"] == [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": OBJECTS},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": BUCKETS["DataBuckets"].split(",")},
    ]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"AWS": [f"${{{function}Role.Arn}}" for function in SIGNERS]}
    assert trust["Condition"]["StringLike"] == {"aws:RequestTag/recipient": "?*"}


def test_keys_and_storage_roles_are_used_only_where_they_are_named() -> None:
    key, role = "arn:aws:kms:us-east-1:000000000000:key/1", "arn:aws:iam::111111111111:role/lake"
    resources = transformed(parameters={**BUCKETS, "DataKeys": key, "StorageRoles": role})
    for function in FUNCTIONS:
        grants = granted(resources, function)
        assert (("kms:Decrypt", key) in grants) == (function in READERS)
        assert (("sts:AssumeRole", role) in grants) == (function in {*READERS, *VENDORS, FILES})
    [policy] = resources["SigningRole"]["Properties"]["Policies"]
    assert [key] in [statement["Resource"] for statement in policy["PolicyDocument"]["Statement"]]


def test_keys_are_used_only_through_the_services_that_hold_the_data() -> None:
    """A role with them cannot decrypt by KMS itself what others have encrypted."""
    found = [
        statement
        for resource in transformed(parameters=EVERYTHING).values()
        for statement in statements_in(resource)
        if any(action.startswith("kms:") for action in _listed(statement.get("Action", [])))
        and "Principal" not in statement  # of a key
        and statement["Resource"] != "${OAuthKey.Arn}"  # which signs, and encrypts nothing
    ]
    assert len(found) >= 5
    services = [condition["kms:ViaService"] for each in found for condition in each["Condition"].values()]
    assert len(services) == len(found)
    assert {service.partition(".")[0] for told in services for service in _listed(told)} == {
        "s3",
        "dynamodb",
        "secretsmanager",
    }


def statements_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every statement of a policy, wherever it lies."""
    if isinstance(value, dict):
        if "Effect" in value:
            yield value
        for inner in value.values():
            yield from statements_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from statements_in(inner)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_tables_survive_the_stack_and_can_be_restored(resources: dict[str, dict[str, Any]]) -> None:
    for name in ("Catalog", "Tokens"):
        said = resources[name]
        assert (said["DeletionPolicy"], said["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        assert said["Properties"]["BillingMode"] == "PAY_PER_REQUEST"
        assert said["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
        assert said["Properties"]["SSESpecification"] == {"SSEEnabled": True}
    said = resources["TokenKey"]
    assert (said["DeletionPolicy"], said["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@pytest.mark.parametrize(("asked", "protected"), [({}, True), ({"DeletionProtection": "disabled"}, False)])
def test_nobody_deletes_the_tables_by_mistake(asked: dict[str, str], protected: bool) -> None:
    resources = transformed(parameters={**BUCKETS, **asked})
    found = [resources[name]["Properties"]["DeletionProtectionEnabled"] for name in ("Catalog", "Tokens")]
    assert found == [protected, protected]


def test_the_endpoint_takes_no_tls_before_1_2(resources: dict[str, dict[str, Any]]) -> None:
    said = resources["Api"]["Properties"]
    assert said["EndpointConfiguration"] == {"Types": ["REGIONAL"], "IpAddressType": "ipv4"}
    # The oldest protocol that a policy takes stands behind the newest in its name (API Gateway, "Supported security
    # policies"); those of edge-optimized APIs end in EDGE.
    assert re.fullmatch(r"SecurityPolicy_TLS13_1_[23]_(?:\w+_)?20\d\d_\d\d", said["SecurityPolicy"])
    assert said["EndpointAccessMode"] == "BASIC"


def test_the_stage_bounds_what_recipients_may_ask_together() -> None:
    resources = transformed(parameters={**BUCKETS, "RequestsPerSecond": "7", "RequestsBurst": "9"})
    [settings, *_] = resources["ApiStage"]["Properties"]["MethodSettings"]
    assert (settings["ResourcePath"], settings["HttpMethod"]) == ("/*", "*")
    assert [int(settings[name]) for name in ("ThrottlingRateLimit", "ThrottlingBurstLimit")] == [7, 9]


@pytest.mark.parametrize("parameters", [{"Explore": "disabled"}, EVERYTHING], ids=["least", "everything"])
def test_every_route_that_needs_no_token_has_a_limit_of_its_own(parameters: dict[str, str]) -> None:
    resources = transformed(parameters={**BUCKETS, **parameters})
    [_, *own] = resources["ApiStage"]["Properties"]["MethodSettings"]
    limited = {(one["ResourcePath"].replace("~1", "/").removeprefix("/"), one["HttpMethod"]) for one in own}
    # What browsers ask before a request of another origin has no limit of its own: it is an OPTIONS of each route.
    opened = {
        (path, method.upper())
        for path, methods in resources["Api"]["Properties"]["Body"]["paths"].items()
        for method, said in methods.items()
        if method != "options" and {"Bearer": []} not in said.get("security", [])
    }
    assert limited == opened
    assert all(0 < one["ThrottlingRateLimit"] <= one["ThrottlingBurstLimit"] for one in own)


SAFE_VARIABLES = {
    "requestId",
    "requestTime",
    "identity.sourceIp",
    "tlsVersion",
    "httpMethod",
    "resourcePath",
    "status",
    "error.responseType",
    "responseLatency",
    "responseLength",
    "authorizer.recipientId",
    "authorizer.tokenId",
}
"""None holds a header, a query string or the path as it was sent, where tokens of bearers, pages and queries stand."""


def test_the_gateway_logs_every_request_and_no_token(resources: dict[str, dict[str, Any]]) -> None:
    said = resources["ApiStage"]["Properties"]["AccessLogSetting"]
    assert said["DestinationArn"] == "arn:aws:logs:us-east-1:000000000000:log-group:${GatewayLog}"
    assert resources["GatewayLog"]["Properties"]["RetentionInDays"] == 30
    variables = re.findall(r"\$context\.([\w.]+)", said["Format"])
    assert set(variables) == SAFE_VARIABLES
    line = json.loads(re.sub(r"\$context\.[\w.]+", "x", said["Format"]))
    assert len(line) == len(variables) == len(SAFE_VARIABLES)
    assert "\n" not in said["Format"]


def test_without_the_accounts_role_there_is_no_access_log() -> None:
    resources = transformed(parameters={**BUCKETS, "AccessLog": "disabled"})
    assert "AccessLogSetting" not in resources["ApiStage"]["Properties"]


def concurrency(parameters: dict[str, str]) -> dict[str, int]:
    resources = transformed(parameters={**BUCKETS, **parameters})
    found = {name: resources[name]["Properties"].get("ReservedConcurrentExecutions") for name in FUNCTIONS}
    return {name: int(number) for name, number in found.items() if number is not None}


def test_a_new_account_can_deploy_what_reserves_nothing() -> None:
    # Lambda refuses any reservation where the account's limit is 10.
    assert concurrency({}) == {}
    assert concurrency({"AuthorizerConcurrency": "0", "StreamingConcurrency": "0"}) == {}


def test_the_authorizer_is_kept_its_share_and_streams_are_bounded() -> None:
    assert concurrency({"AuthorizerConcurrency": "50"}) == {"Authorizer": 50}
    assert concurrency({"StreamingConcurrency": "100"}) == dict.fromkeys(STREAMED, 100)


def test_the_tables_are_keyed_as_the_catalog_says() -> None:
    from catalog import schema

    for table in TOLD.tables.values():
        assert table["KeySchema"] == [
            {"AttributeName": schema.PARTITION_KEY, "KeyType": "HASH"},
            {"AttributeName": schema.SORT_KEY, "KeyType": "RANGE"},
        ]
    assert {name: table["TimeToLiveSpecification"]["AttributeName"] for name, table in TOLD.tables.items()} == {
        "Catalog": schema.CATALOG_EXPIRY,
        "Tokens": schema.EXPIRY,
    }


def test_every_log_group_forgets(resources: dict[str, dict[str, Any]]) -> None:
    groups = {name: said for name, said in resources.items() if said["Type"] == "AWS::Logs::LogGroup"}
    assert {said["Properties"]["RetentionInDays"] for said in groups.values()} == {30}
    for function in FUNCTIONS:
        assert resources[function]["Properties"]["LoggingConfig"]["LogGroup"][2:-1] in groups


def test_the_gateways_own_answers_are_errors_of_the_protocol() -> None:
    def below(kind: type[errors.DeltaicError]) -> Iterator[type[errors.DeltaicError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    codes = {kind.code for kind in below(errors.DeltaicError)}
    answers = TOLD.gateway_responses
    for name, answer in answers.items():
        body = json.loads(answer.body)
        for_iceberg = {"error"} if name in {"UNAUTHORIZED", "ACCESS_DENIED"} else set()
        assert set(body) == {"errorCode", "message"} | for_iceberg, name
        assert body["errorCode"] in codes, name
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8", name
        for told in (body[key] for key in for_iceberg):
            assert (told["message"], told["code"]) == (body["message"], answer.status), name
    expected = {
        "UNAUTHORIZED": (401, "UNAUTHENTICATED"),
        "ACCESS_DENIED": (403, "PERMISSION_DENIED"),
        "MISSING_AUTHENTICATION_TOKEN": (404, "RESOURCE_DOES_NOT_EXIST"),
        "THROTTLED": (429, "RESOURCE_EXHAUSTED"),
        "AUTHORIZER_FAILURE": (503, "TEMPORARILY_UNAVAILABLE"),
        "DEFAULT_4XX": (404, "RESOURCE_DOES_NOT_EXIST"),
        "DEFAULT_5XX": (500, "INTERNAL_ERROR"),
    }
    assert {name: (answers[name].status, json.loads(answers[name].body)["errorCode"]) for name in expected} == expected


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        pytest.param("Bearer dlt_abc-DEF", True, id="as the clients send it"),
        pytest.param("bearer dlt_abc", True, id="lower case"),
        pytest.param("Bearer abc==", True, id="padding"),
        pytest.param("Bearer", False, id="no token"),
        pytest.param("Bearer ", False, id="empty token"),
        pytest.param("Basic YTpi", False, id="another scheme"),
        pytest.param("Bearer a b", False, id="two words"),
        pytest.param("Bearer a\u00e9", False, id="not a token character"),
    ],
)
def test_what_is_no_bearer_token_does_not_reach_the_authorizer(value: str, accepted: bool) -> None:
    assert bool(TOLD.authorizer.validation.search(value)) == accepted


def test_the_authorizers_answer_is_kept_for_a_minute() -> None:
    assert TOLD.authorizer.ttl == 60


def test_streaming_functions_get_no_new_runtime_by_surprise(resources: dict[str, dict[str, Any]]) -> None:
    for function in STREAMED:
        assert resources[function]["Properties"]["RuntimeManagementConfig"] == {"UpdateRuntimeOn": "FunctionUpdate"}


def test_every_function_is_published_and_its_old_version_deleted(resources: dict[str, dict[str, Any]]) -> None:
    versions = published(resources)
    assert versions.keys() == {*FUNCTIONS}, "the lists at the top of this file have every function"
    for function, (version, _) in versions.items():
        assert resources[version]["DeletionPolicy"] == "Delete"
        assert resources[f"{function}Aliaslive"]["Properties"] == {
            "Name": "live",
            "FunctionName": f"${{{function}}}",
            "FunctionVersion": f"${{{version}.Version}}",
        }


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_nothing_invokes_a_function_but_by_its_alias(mode: str) -> None:
    resources = transformed(parameters={**BUCKETS, "ResponseStreaming": mode})
    permitted = [
        said["Properties"]["FunctionName"] for said in resources.values() if said["Type"] == "AWS::Lambda::Permission"
    ]
    invoked = re.findall(r"functions/([^/]+)/", json.dumps(resources["Api"]["Properties"]["Body"]))
    aliases = {f"${{{function}Aliaslive}}" for function in FUNCTIONS}
    assert len(permitted) == len(invoked) == len(TOLD.routes) + 1  # the authorizer
    assert set(permitted) == set(invoked) == aliases, "the lists at the top of this file have every function"
    assert {function.arn.rpartition(":")[2] for function in TOLD.functions.values()} == {"live"}


@pytest.mark.parametrize("parameter", CHANGED)
def test_a_changed_parameter_publishes_what_it_changes_and_nothing_else(
    resources: dict[str, dict[str, Any]], parameter: str
) -> None:
    # Else the alias would go on with the old value, or CloudFormation fail: Lambda publishes nothing unchanged twice.
    other = transformed(parameters={**BUCKETS, parameter: CHANGED[parameter]})
    kept = [function for function in FUNCTIONS if function in other]
    changed = {function for function in kept if configured(other, function) != configured(resources, function)}
    before, after = published(resources), published(other)
    assert {function for function in kept if before[function] != after[function]} == changed


def test_every_parameter_is_tried() -> None:
    # Stage names the functions: another one makes other functions.
    assert {*CHANGED, "Stage"} == set(read(TEMPLATE)["Parameters"])


def test_a_new_layer_publishes_every_function(resources: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    copy = tmp_path / "template.yaml"
    copy.write_text(TEMPLATE.read_text().replace("The deltaic package and", "The new deltaic package and"))
    before, after = published(resources), published(transformed(copy, BUCKETS))
    assert not before.items() & after.items()


def test_functions_start_from_snapshots_where_that_is_asked_for(resources: dict[str, dict[str, Any]]) -> None:
    asked = transformed(parameters={**BUCKETS, "SnapStart": "enabled"})
    for function in FUNCTIONS:
        assert resources[function]["Properties"]["SnapStart"] == {"ApplyOn": "None"}
        said = asked[function]["Properties"]
        assert said["SnapStart"] == {"ApplyOn": "PublishedVersions"}
        # What SnapStart cannot do: other runtimes, much disk, file systems.
        assert said["Runtime"] == "python3.13"
        assert not {"EphemeralStorage", "FileSystemConfigs"} & set(said)


def test_the_prefix_is_the_protocols_and_ends_the_endpoint() -> None:
    template = load_template(parameters={"Prefix": "open"})
    assert template.prefix == "open"
    assert template.outputs["Endpoint"].endswith("/open")


@pytest.mark.parametrize(
    ("folder", "group"),
    [("functions/layer", "layer"), ("functions/maintenance/layer", "checkpoint"), ("functions/pipeline", "cluster")],
)
def test_requirements_are_exported_from_the_lock_file(folder: str, group: str) -> None:
    own = ["pyspark", "py4j"]  # the cluster's
    words = [word for name in own for word in ("--no-emit-package", name)]
    export = ["uv", "export", "--frozen", "--quiet", "--no-header", "--only-group", group, *words]
    told = subprocess.run(export, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert (ROOT / folder / "requirements.txt").read_text() == told


def test_the_layer_of_deltalake_repeats_nothing_that_the_shared_one_has() -> None:
    ours, shared = (
        set(re.findall(r"^([a-z0-9-]+)==", (ROOT / layer / "requirements.txt").read_text(), re.MULTILINE))
        for layer in ("functions/maintenance/layer", "functions/layer")
    )
    assert "deltalake" in ours
    assert ours & shared <= {"typing-extensions"}  # pinned for Python before 3.12 only
