"""Test the template: functions, permissions, tables, API and versions."""

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
    ICEBERG_OBJECTS,
    LOG_OBJECTS,
    OBJECTS,
    STORAGE_SECRETS,
    configured,
    granted,
    keys,
    published,
)

LOADED = load_template()
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


def test_each_function_has_a_separate_role(resources: dict[str, dict[str, Any]]) -> None:
    functions = {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    missing = set(functions) - set(FUNCTIONS)
    assert not missing, f"add these functions to LISTINGS, READERS or another list at the top of this file: {missing}"
    assert set(functions) == set(FUNCTIONS)
    assert {name: resource["Role"] for name, resource in functions.items()} == {
        name: f"${{{name}Role.Arn}}" for name in FUNCTIONS
    }


def test_authorizer_reads_tokens_and_policies_and_writes_only_the_first_use(
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
    [update] = [
        statement for statement in policy["PolicyDocument"]["Statement"] if statement["Action"] == "dynamodb:UpdateItem"
    ]
    assert update["Condition"]["ForAllValues:StringEquals"] == {"dynamodb:Attributes": ["pk", "sk", "salt"]}


def test_only_one_function_signs_tokens_and_it_reads_only_clients() -> None:
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


def test_stack_without_client_credentials_has_no_key(resources: dict[str, dict[str, Any]]) -> None:
    assert [name for name in resources if "OAuth" in name] == []
    assert [name for name, resource in resources.items() if resource["Type"].startswith("AWS::KMS::")] == []
    paths = resources["Api"]["Properties"]["Body"]["paths"]
    assert [path for path, methods in paths.items() if "/oauth" in path and methods] == []
    assert [route.path for route in LOADED.routes if "oauth" in route.path or "well-known" in route.path] == []


def test_link_page_writes_tokens_and_reads_no_hash(resources: dict[str, dict[str, Any]]) -> None:
    token_actions = {action for action, resource in granted(resources, ACTIVATION) if resource == "${Tokens.Arn}"}
    assert token_actions == {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"}
    bound = keys(resources, ACTIVATION)
    assert bound["dynamodb:UpdateItem"] == ["recipient/*", "token/*"]
    assert bound["dynamodb:GetItem"] == ["recipient/*"]


def test_explore_page_has_no_rights_and_is_optional(resources: dict[str, dict[str, Any]]) -> None:
    assert granted(resources, EXPLORE) == set()
    without = transformed(parameters={**BUCKETS, "Explore": "disabled"})
    assert "explore" in json.dumps(resources).lower()
    assert [name for name in without if "explore" in name.lower()] == []
    paths = without["Api"]["Properties"]["Body"]["paths"]
    assert [path for path, methods in paths.items() if "explore" in path and methods] == []
    assert [
        route.path for route in load_template(parameters={"Explore": "disabled"}).routes if "explore" in route.path
    ] == []


@pytest.mark.parametrize("function", ENDPOINTS)
def test_endpoints_read_no_tokens_and_write_only_submitted_queries_and_counts(
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
def test_only_query_functions_read_submitted_queries(resources: dict[str, dict[str, Any]], function: str) -> None:
    allowed = {key for bound in keys(resources, function).values() for key in bound}
    assert any(fnmatchcase("query/0a1b", key) for key in allowed) == (function in {"QueryTable", "GetQuery"})


@pytest.mark.parametrize("function", ENDPOINTS)
def test_endpoints_do_not_read_administrative_entries(resources: dict[str, dict[str, Any]], function: str) -> None:
    bound = keys(resources, function)
    for partition in ("recipients", "lease/s3:", "token/ab"):
        assert not [action for action, allowed in bound.items() if any(fnmatchcase(partition, key) for key in allowed)]
    assert all("storages" not in allowed for allowed in bound.values()) == (function in LISTINGS)


@pytest.mark.parametrize("function", ["Authorizer", *LISTINGS, CONTRACT])
def test_functions_that_read_no_table_have_no_s3_rights(resources: dict[str, dict[str, Any]], function: str) -> None:
    assert not [grant for grant in granted(resources, function) if grant[0].startswith(("s3:", "sts:", "kms:"))]


@pytest.mark.parametrize("function", [*VENDORS, FILES])
def test_functions_that_vend_credentials_cannot_read_buckets(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    grants = granted(resources, function)
    assert {action for action, _ in grants if not action.startswith(("dynamodb:", "secretsmanager:"))} == {
        "sts:AssumeRole",
        "sts:TagSession",
    }


@pytest.mark.parametrize("function", READERS)
def test_functions_that_read_tables_read_only_logs_in_data_buckets(
    resources: dict[str, dict[str, Any]], function: str
) -> None:
    assert {grant for grant in granted(resources, function) if grant[0].startswith("s3:")} == {
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:ListBucket", "arn:aws:s3:::raw"),
        ("s3:GetObject", LOG_OBJECTS[0]),
        ("s3:GetObject", LOG_OBJECTS[1]),
        *(("s3:GetObject", objects) for objects in ICEBERG_OBJECTS),
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
def test_functions_can_read_only_logs(key: str, read: bool) -> None:
    assert fnmatchcase(f"arn:aws:s3:::lake/{key}", LOG_OBJECTS[0]) is read


def test_stage_reads_only_storage_keys_of_its_catalog() -> None:
    parameters = {**BUCKETS, "Stage": "storage"}
    catalog = load_template(parameters=parameters).tables["Catalog"]["TableName"]
    names = {
        f"deltaic/storage/{catalog}/minio": True,
        "deltaic/storage/deltaic-prod-catalog/minio": False,
        "deltaic/storage/token-key-AbCdEf": False,
    }
    pattern = STORAGE_SECRETS.rpartition(":")[2].replace("${Catalog}", catalog)
    assert {name: fnmatchcase(name, pattern) for name in names} == names


def test_urls_live_longer_than_spark_expects() -> None:
    # The client treats an expiry within 15 minutes as one hour.
    assert TEMPLATE.read_text().count("    MinValue: 1800\n") == 1


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_signing_functions_assume_the_signing_role(resources: dict[str, dict[str, Any]], function: str) -> None:
    assumed = {grant for grant in granted(resources, function) if grant[0].startswith("sts:")}
    signing = {("sts:AssumeRole", "${SigningRole.Arn}"), ("sts:TagSession", "${SigningRole.Arn}")}
    assert assumed == (signing if function in SIGNERS else set())
    assert ("SIGNING_ROLE_ARN" in LOADED.functions[function].environment) == (function in SIGNERS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_functions_that_use_secrets_read_them(resources: dict[str, dict[str, Any]], function: str) -> None:
    secrets = {resource for action, resource in granted(resources, function) if action.startswith("secretsmanager:")}
    expected = {TOKEN_KEY} if function in PAGED else set()
    expected |= {STORAGE_SECRETS} if function in {*READERS, FILES} else set()
    assert secrets == expected
    assert ("TOKEN_KEY_SECRET" in LOADED.functions[function].environment) == (function in PAGED)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_policies_have_no_wildcard_actions_or_resources(resources: dict[str, dict[str, Any]], function: str) -> None:
    for action, resource in granted(resources, function):
        assert "*" not in action
        assert resource != "*"


def test_signing_role_reads_shared_files_for_one_recipient(resources: dict[str, dict[str, Any]]) -> None:
    role = resources["SigningRole"]["Properties"]
    [policy] = role["Policies"]
    assert policy["PolicyDocument"]["Statement"] == [
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": OBJECTS},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": BUCKETS["DataBuckets"].split(",")},
    ]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"AWS": [f"${{{function}Role.Arn}}" for function in SIGNERS]}
    assert trust["Condition"]["StringLike"] == {"aws:RequestTag/recipient": "?*"}


def test_only_given_keys_and_storage_roles_are_used() -> None:
    key, role = "arn:aws:kms:us-east-1:000000000000:key/1", "arn:aws:iam::111111111111:role/lake"
    resources = transformed(parameters={**BUCKETS, "DataKeys": key, "StorageRoles": role})
    for function in FUNCTIONS:
        grants = granted(resources, function)
        assert (("kms:Decrypt", key) in grants) == (function in READERS)
        assert (("sts:AssumeRole", role) in grants) == (function in {*READERS, *VENDORS, FILES})
    [policy] = resources["SigningRole"]["Properties"]["Policies"]
    assert [key] in [statement["Resource"] for statement in policy["PolicyDocument"]["Statement"]]


@pytest.mark.parametrize("names", [["lake"], ["lake", "sea"]])
def test_only_given_table_buckets_are_read(names: list[str]) -> None:
    buckets = [f"arn:aws:s3tables:us-east-1:000000000000:bucket/{name}" for name in names]
    given = {**BUCKETS, "Iceberg": "enabled", "TableBuckets": ",".join(buckets)}
    resources, tables = transformed(parameters=given), [f"{bucket}/table/*" for bucket in buckets]
    located = {("s3tables:GetTableMetadataLocation", arn) for arn in tables}
    read = {("s3tables:GetTableData", arn) for arn in tables}
    for function in (*FUNCTIONS, "LoadIcebergTable"):
        expected = located | read if function in READERS else set()
        expected |= located if function == "LoadIcebergTable" else set()
        assert {grant for grant in granted(resources, function) if grant[0].startswith("s3tables:")} == expected
    [policy] = resources["SigningRole"]["Properties"]["Policies"]
    statement = {"Effect": "Allow", "Action": "s3tables:GetTableData", "Resource": tables}
    assert statement in policy["PolicyDocument"]["Statement"]


def test_keys_are_used_only_through_services_that_store_data() -> None:
    """Test that no role can decrypt data by calling KMS directly."""
    statements = [
        statement
        for resource in transformed(parameters=EVERYTHING).values()
        for statement in statements_in(resource)
        if any(action.startswith("kms:") for action in _as_list(statement.get("Action", [])))
        and "Principal" not in statement  # key policies
        and statement["Resource"] != "${OAuthKey.Arn}"  # signs only
    ]
    assert len(statements) >= 5
    services = [
        condition["kms:ViaService"] for statement in statements for condition in statement["Condition"].values()
    ]
    assert len(services) == len(statements)
    assert {service.partition(".")[0] for names in services for service in _as_list(names)} == {
        "s3",
        "dynamodb",
        "secretsmanager",
    }


def statements_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every policy statement, at any level."""
    if isinstance(value, dict):
        if "Effect" in value:
            yield value
        for nested in value.values():
            yield from statements_in(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from statements_in(nested)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_tables_survive_the_stack_and_can_be_restored(resources: dict[str, dict[str, Any]]) -> None:
    for name in ("Catalog", "Tokens"):
        resource = resources[name]
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        assert resource["Properties"]["BillingMode"] == "PAY_PER_REQUEST"
        assert resource["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
        assert resource["Properties"]["SSESpecification"] == {"SSEEnabled": True}
    resource = resources["TokenKey"]
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@pytest.mark.parametrize(("options", "protected"), [({}, True), ({"DeletionProtection": "disabled"}, False)])
def test_tables_have_deletion_protection(options: dict[str, str], protected: bool) -> None:
    resources = transformed(parameters={**BUCKETS, **options})
    values = [resources[name]["Properties"]["DeletionProtectionEnabled"] for name in ("Catalog", "Tokens")]
    assert values == [protected, protected]


def test_endpoint_requires_tls_1_2(resources: dict[str, dict[str, Any]]) -> None:
    properties = resources["Api"]["Properties"]
    assert properties["EndpointConfiguration"] == {"Types": ["REGIONAL"], "IpAddressType": "ipv4"}
    # The name of a policy has the newest and the oldest protocol (API Gateway, "Supported security policies"). Names of
    # policies for edge-optimized APIs end in EDGE.
    assert re.fullmatch(r"SecurityPolicy_TLS13_1_[23]_(?:\w+_)?20\d\d_\d\d", properties["SecurityPolicy"])
    assert properties["EndpointAccessMode"] == "BASIC"


def test_stage_limits_requests_of_all_recipients() -> None:
    resources = transformed(parameters={**BUCKETS, "RequestsPerSecond": "7", "RequestsBurst": "9"})
    [settings, *_] = resources["ApiStage"]["Properties"]["MethodSettings"]
    assert (settings["ResourcePath"], settings["HttpMethod"]) == ("/*", "*")
    assert [int(settings[name]) for name in ("ThrottlingRateLimit", "ThrottlingBurstLimit")] == [7, 9]


@pytest.mark.parametrize("parameters", [{"Explore": "disabled"}, EVERYTHING], ids=["least", "everything"])
def test_every_route_without_token_has_a_separate_limit(parameters: dict[str, str]) -> None:
    resources = transformed(parameters={**BUCKETS, **parameters})
    [_, *limits] = resources["ApiStage"]["Properties"]["MethodSettings"]
    limited = {(limit["ResourcePath"].replace("~1", "/").removeprefix("/"), limit["HttpMethod"]) for limit in limits}
    # Preflight requests have no separate limit: they are an OPTIONS method of each route.
    public = {
        (path, method.upper())
        for path, methods in resources["Api"]["Properties"]["Body"]["paths"].items()
        for method, definition in methods.items()
        if method != "options" and {"Bearer": []} not in definition.get("security", [])
    }
    assert limited == public
    assert all(0 < limit["ThrottlingRateLimit"] <= limit["ThrottlingBurstLimit"] for limit in limits)


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
"""Variables without headers, query strings and raw paths, which can contain tokens."""


def test_gateway_logs_requests_without_tokens(resources: dict[str, dict[str, Any]]) -> None:
    setting = resources["ApiStage"]["Properties"]["AccessLogSetting"]
    assert setting["DestinationArn"] == "arn:aws:logs:us-east-1:000000000000:log-group:${GatewayLog}"
    assert resources["GatewayLog"]["Properties"]["RetentionInDays"] == 30
    variables = re.findall(r"\$context\.([\w.]+)", setting["Format"])
    assert set(variables) == SAFE_VARIABLES
    line = json.loads(re.sub(r"\$context\.[\w.]+", "x", setting["Format"]))
    assert len(line) == len(variables) == len(SAFE_VARIABLES)
    assert "\n" not in setting["Format"]


def test_access_log_can_be_disabled() -> None:
    resources = transformed(parameters={**BUCKETS, "AccessLog": "disabled"})
    assert "AccessLogSetting" not in resources["ApiStage"]["Properties"]


def concurrency(parameters: dict[str, str]) -> dict[str, int]:
    resources = transformed(parameters={**BUCKETS, **parameters})
    reserved = {name: resources[name]["Properties"].get("ReservedConcurrentExecutions") for name in FUNCTIONS}
    return {name: int(number) for name, number in reserved.items() if number is not None}


def test_default_stack_reserves_no_concurrency() -> None:
    # Lambda refuses reservations if the account's limit is 10.
    assert concurrency({}) == {}
    assert concurrency({"AuthorizerConcurrency": "0", "StreamingConcurrency": "0"}) == {}


def test_concurrency_parameters_reserve_executions() -> None:
    assert concurrency({"AuthorizerConcurrency": "50"}) == {"Authorizer": 50}
    assert concurrency({"StreamingConcurrency": "100"}) == dict.fromkeys(STREAMED, 100)


def test_tables_have_the_keys_of_the_catalog() -> None:
    from catalog import schema

    for table in LOADED.tables.values():
        assert table["KeySchema"] == [
            {"AttributeName": schema.PARTITION_KEY, "KeyType": "HASH"},
            {"AttributeName": schema.SORT_KEY, "KeyType": "RANGE"},
        ]
    assert {name: table["TimeToLiveSpecification"]["AttributeName"] for name, table in LOADED.tables.items()} == {
        "Catalog": schema.CATALOG_EXPIRY,
        "Tokens": schema.EXPIRY,
    }


def test_every_log_group_has_a_retention(resources: dict[str, dict[str, Any]]) -> None:
    groups = {name: group for name, group in resources.items() if group["Type"] == "AWS::Logs::LogGroup"}
    assert {group["Properties"]["RetentionInDays"] for group in groups.values()} == {30}
    for function in FUNCTIONS:
        assert resources[function]["Properties"]["LoggingConfig"]["LogGroup"][2:-1] in groups


def test_gateway_responses_are_errors_of_the_protocol() -> None:
    def subclasses(error_class: type[errors.DeltaicError]) -> Iterator[type[errors.DeltaicError]]:
        yield error_class
        for child in error_class.__subclasses__():
            yield from subclasses(child)

    codes = {error_class.code for error_class in subclasses(errors.DeltaicError)}
    answers = LOADED.gateway_responses
    for name, answer in answers.items():
        body = json.loads(answer.body)
        for_iceberg = {"error"} if name in {"UNAUTHORIZED", "ACCESS_DENIED"} else set()
        assert set(body) == {"errorCode", "message"} | for_iceberg, name
        assert body["errorCode"] in codes, name
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8", name
        for error in (body[key] for key in for_iceberg):
            assert (error["message"], error["code"]) == (body["message"], answer.status), name
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
def test_invalid_authorization_header_does_not_reach_the_authorizer(value: str, accepted: bool) -> None:
    assert bool(LOADED.authorizer.validation.search(value)) == accepted


def test_authorizer_result_is_cached_for_a_minute() -> None:
    assert LOADED.authorizer.ttl == 60


def test_runtime_of_streaming_functions_is_updated_only_with_the_function(resources: dict[str, dict[str, Any]]) -> None:
    for function in STREAMED:
        assert resources[function]["Properties"]["RuntimeManagementConfig"] == {"UpdateRuntimeOn": "FunctionUpdate"}


def test_every_function_is_published_and_its_old_version_deleted(resources: dict[str, dict[str, Any]]) -> None:
    versions = published(resources)
    assert versions.keys() == {*FUNCTIONS}, "add the function to a list at the top of this file"
    for function, (version, _) in versions.items():
        assert resources[version]["DeletionPolicy"] == "Delete"
        assert resources[f"{function}Aliaslive"]["Properties"] == {
            "Name": "live",
            "FunctionName": f"${{{function}}}",
            "FunctionVersion": f"${{{version}.Version}}",
        }


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_functions_are_invoked_only_by_alias(mode: str) -> None:
    resources = transformed(parameters={**BUCKETS, "ResponseStreaming": mode})
    permitted = [
        resource["Properties"]["FunctionName"]
        for resource in resources.values()
        if resource["Type"] == "AWS::Lambda::Permission"
    ]
    invoked = re.findall(r"functions/([^/]+)/", json.dumps(resources["Api"]["Properties"]["Body"]))
    aliases = {f"${{{function}Aliaslive}}" for function in FUNCTIONS}
    assert len(permitted) == len(invoked) == len(LOADED.routes) + 1  # the authorizer
    assert set(permitted) == set(invoked) == aliases, "add the function to a list at the top of this file"
    assert {function.arn.rpartition(":")[2] for function in LOADED.functions.values()} == {"live"}


@pytest.mark.parametrize("parameter", CHANGED)
def test_changed_parameter_publishes_only_the_functions_that_it_changes(
    resources: dict[str, dict[str, Any]], parameter: str
) -> None:
    # Otherwise the alias keeps the old value, or CloudFormation fails: Lambda does not publish unchanged functions.
    other = transformed(parameters={**BUCKETS, parameter: CHANGED[parameter]})
    common = [function for function in FUNCTIONS if function in other]
    changed = {function for function in common if configured(other, function) != configured(resources, function)}
    before, after = published(resources), published(other)
    assert {function for function in common if before[function] != after[function]} == changed


def test_every_parameter_is_in_changed() -> None:
    # Stage is part of the functions' names, so another value creates other functions.
    assert {*CHANGED, "Stage"} == set(read(TEMPLATE)["Parameters"])


def test_new_layer_publishes_every_function(resources: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    copy = tmp_path / "template.yaml"
    copy.write_text(TEMPLATE.read_text().replace("The deltaic package and", "The new deltaic package and"))
    before, after = published(resources), published(transformed(copy, BUCKETS))
    assert not before.items() & after.items()


def test_snapstart_applies_to_every_function(resources: dict[str, dict[str, Any]]) -> None:
    with_snapshots = transformed(parameters={**BUCKETS, "SnapStart": "enabled"})
    for function in FUNCTIONS:
        assert resources[function]["Properties"]["SnapStart"] == {"ApplyOn": "None"}
        properties = with_snapshots[function]["Properties"]
        assert properties["SnapStart"] == {"ApplyOn": "PublishedVersions"}
        # SnapStart does not support other runtimes, large disks and file systems.
        assert properties["Runtime"] == "python3.13"
        assert not {"EphemeralStorage", "FileSystemConfigs"} & set(properties)


def test_endpoint_ends_with_the_prefix() -> None:
    template = load_template(parameters={"Prefix": "open"})
    assert template.prefix == "open"
    assert template.outputs["Endpoint"].endswith("/open")


@pytest.mark.parametrize(
    ("folder", "group"),
    [("functions/layer", "layer"), ("functions/maintenance/layer", "checkpoint"), ("functions/pipeline", "cluster")],
)
def test_requirements_are_exported_from_the_lock_file(folder: str, group: str) -> None:
    excluded = ["pyspark", "py4j"]  # installed on the cluster
    options = [word for name in excluded for word in ("--no-emit-package", name)]
    export = ["uv", "export", "--frozen", "--quiet", "--no-header", "--only-group", group, *options]
    exported = subprocess.run(export, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert (ROOT / folder / "requirements.txt").read_text() == exported


def test_deltalake_layer_repeats_no_package_of_the_shared_layer() -> None:
    packages, shared = (
        set(re.findall(r"^([a-z0-9-]+)==", (ROOT / layer / "requirements.txt").read_text(), re.MULTILINE))
        for layer in ("functions/maintenance/layer", "functions/layer")
    )
    assert "deltalake" in packages
    assert packages & shared <= {"typing-extensions"}  # pinned only for Python before 3.12
