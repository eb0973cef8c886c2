"""Test that each function uses exactly the permissions that it has, by running all of them."""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from cloudformation import transformed
from contract.logs import TableLog, column
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltaic_ops.deploy.sam_template import Template, load_template
from deltaic_ops.local.resources import DATA_BUCKET
from deltaic_ops.local.stack import local_stack
from faults.proxy import Proxy
from filled_server import Entry, catalog_of, client_of, fill
from identity.issuer import Issuer, running
from template_calls import ACCOUNT, Used, event, run
from template_rights import several, statements

pytestmark = pytest.mark.slow

ELSEWHERE = "deltaic-elsewhere"
"""A bucket of storages that have access keys or a role."""
ROLE = "arn:aws:iam::000000000000:role/elsewhere"
PARAMETERS = {
    "DataBuckets": f"arn:aws:s3:::{DATA_BUCKET}",
    "StorageRoles": ROLE,
    "Checkpoints": "enabled",
    "ClientCredentials": "enabled",
    "CorsOrigins": "*",
    "Follow": "enabled",
    "Iceberg": "enabled",
    "Notices": "14",
}
NOT_RUN = {"SubmitJob"}
"""Functions that need EMR Serverless, which no emulator has: tests/deploy/test_jobs.py runs it with a substitute."""
NEEDS_NOTHING = {"ExplorePage", "GetContract", "Preflight"}
"""Functions that only return constants."""

Right = tuple[str, str, str]
"""An action, a pattern of resources and, for DynamoDB, a pattern of partition keys."""
Granted = Mapping[str, set[Right]]


@dataclass(frozen=True)
class UsedRights:
    """The template, and the permissions that each function used, by logical id."""

    template: Template
    used: Mapping[str, set[Used]]


def rights(function: str, template: Template) -> set[Right]:
    """Return the permissions of a function's role, with the names of the local resources."""
    resources = transformed(parameters=PARAMETERS)
    tables = {name: table["TableName"] for name, table in template.tables.items()}
    names = {f"${{{name}.Arn}}": f"arn:aws:dynamodb:{ACCOUNT}:table/{table}" for name, table in tables.items()}
    names |= {f"${{{name}}}": table for name, table in tables.items()}
    names["${IcebergBucket}"] = template.buckets[0]
    names["${OAuthKey.Arn}"] = f"arn:aws:kms:{ACCOUNT}:{template.signing_keys[0]}"  # requested by alias
    names["${SigningRole.Arn}"] = template.functions["QueryTable"].environment["SIGNING_ROLE_ARN"]
    result = set()
    for statement in statements(resources, function):
        key_patterns = (
            statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", [""])
        )
        for action in several(statement["Action"]):
            for resource in several(statement["Resource"]):
                pattern = re.sub(r"\$\{[\w.]+\}", lambda symbol: names[symbol[0]], resource)
                result |= {(action, pattern, key) for key in key_patterns}
    return result


def covers(right: Right, used: Used) -> bool:
    action, resource, key = right
    return action == used.action and fnmatchcase(used.resource, resource) and fnmatchcase(used.key, key)


def unused(granted: set[Right], used: set[Used]) -> set[Right]:
    return {right for right in granted if not any(covers(right, use) for use in used)}


def refused(granted: set[Right], used: set[Used]) -> set[Used]:
    return {use for use in used if not any(covers(right, use) for right in granted)}


def token_in(answer: Mapping[str, Any]) -> str:
    """Return the token in the profile of a link's page."""
    [profile] = re.findall(r'href="data:application/json;base64,([^"]+)"', answer["body"])
    token: str = json.loads(base64.b64decode(profile))["bearerToken"]
    return token


@pytest.fixture(scope="module")
def used_rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsedRights]:
    template = load_template(parameters=PARAMETERS)
    with ExitStack() as parts:
        aws = dict(parts.enter_context(local_stack(tmp_path_factory.mktemp("rights"))).environment)
        proxy = parts.enter_context(Proxy(aws["AWS_ENDPOINT_URL"]).open())
        (recipient_id, uncounted), token, link = create_shares(aws, proxy)
        used: dict[str, set[Used]] = {}
        variables = {name: aws[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}

        def invoke(function: str, *events: Mapping[str, Any]) -> list[dict[str, Any]]:
            answers, calls = run(template.functions[function], variables, proxy, events)
            # Reads with a storage's keys or role need no permission of the function.
            used[function] = {call for call in calls if f":::{ELSEWHERE}" not in call.resource}
            return answers

        first = {name: invoke(name, *events) for name, events in requests(recipient_id, uncounted, link).items()}
        for function, answers in first.items():
            for _ in range(REFUSED.get(function, 0)):
                assert answers.pop()["statusCode"] == 400
            for answer in answers:
                assert answer["statusCode"] == (204 if function == "Preflight" else 200), (function, answer)
        asynchronous = {
            "body": {"idempotencyKey": "k", "maxFiles": 1},
            "capabilities": "responseformat=parquet;asyncquery=true",
        }
        answers = invoke(
            "QueryTable",
            *(event("query_table", recipient_id, table(name), body={"maxFiles": 1}) for name in QUERIED),
            *(event("query_table", recipient_id, table(name), **asynchronous) for name in QUERIED),
        )
        assert {answer["statusCode"] for answer in answers} == {200}, answers
        queries = [json.loads(answer["body"])["queryStatus"]["queryId"] for answer in answers[len(QUERIED) :]]
        results = [
            event("get_query", recipient_id, {**table(name), "queryId": query}, body={"maxFiles": 1})
            for name, query in zip(QUERIED, queries, strict=True)
        ]
        answers = invoke("GetQuery", *results)
        assert {answer["statusCode"] for answer in answers} == {200}, answers
        generated = invoke(
            "MakeIcebergMetadata",
            *(background_event(uncounted, name) for name in TABLES),
            background_event(recipient_id),
        )
        assert [answer.get("listedFiles") for answer in generated] == [FILES] * (len(TABLES) + 1)
        empty_bucket(client_of("s3", aws), template.buckets[0])
        variables["ICEBERG_FILES_AT_ONCE"] = str(FILES)
        loading = [iceberg_event("load_iceberg_table", uncounted, name) for name in TABLES]
        glue_table = {"share": "other", "namespace": "s", "table": "of_glue"}
        loading.append(event("load_iceberg_table", uncounted, glue_table))
        others = [
            iceberg_event("load_iceberg_table", *arguments) for arguments in ((recipient_id,), (uncounted, "large"))
        ]
        *loaded, unknown, limited, not_yet = invoke("LoadIcebergTable", *loading, *others)
        assert not_yet["statusCode"] == 503
        signing = signatures(aws, uncounted, [json.loads(answer["body"]) for answer in loaded])
        *signed, refused_request = invoke(
            "SignIcebergRequest", *signing, iceberg_event("sign_iceberg_request", recipient_id)
        )
        assert {answer["statusCode"] for answer in (*loaded, *signed)} == {200}, (loaded, signed)
        # Glue does not have this table. A recipient with limits is served like others.
        assert [answer["statusCode"] for answer in (unknown, limited, refused_request)] == [400, 200, 403]
        arn = "arn:aws:execute-api:us-east-1:123456789012:a1b2c3d4e5/delta-sharing/GET/shares"
        with running() as issuer:
            federate(aws, issuer)
            answers = invoke("OAuth", *token_requests(catalog_of(aws)))
            assert {answer["statusCode"] for answer in answers} == {200}, answers
            client_token = json.loads(answers[0]["body"])["access_token"]
            bearers = [
                f"Bearer {bearer}"
                for bearer in (token, token_in(first["Activation"][-1]), issuer.token(), client_token)
            ]
            invoke(
                "Authorizer", *({"type": "TOKEN", "authorizationToken": bearer, "methodArn": arn} for bearer in bearers)
            )
        [checkpoints] = invoke("CheckpointTables", {})
        assert (checkpoints["written"], checkpoints["failed"]) == (3, 0)
        endings, versions = invoke("SendNotices", {"tell": "endings"}, {"tell": "versions"})
        assert endings["told"] > 0
        assert (versions["unchanged"], versions["failed"]) == (4, 0)
        # A table of the same folders is refused in the share with a filtered grant.
        assert invoke("FollowTables", follow_sources(catalog_of(aws))) == [
            {"follows": 4, "failed": 0, "left": 0, "added": 6, "refused": 1}
        ]
        yield UsedRights(template, used)


TABLES = ("home", "keyed", "roled")
QUERIED = (*TABLES, "iceberg")
FILES = 11
SCHEMA = "/shares/{share}/schemas/{schema}"
KINDS = {
    "volume": f"{SCHEMA}/volumes/{{volume}}",
    "skill": f"{SCHEMA}/skills/{{skill}}",
    "model": f"{SCHEMA}/models/{{model}}/versions/{{version}}",
}
"""The kinds of assets, and the routes of their folders."""
REFUSED = {"CreateTableCredentials": 1, "CreateAssetCredentials": len(KINDS)}
"""Number of refusals at the end: recipients with a byte limit get no credentials, whose use is not counted."""


def table(name: str) -> dict[str, str]:
    return {"share": "lent", "schema": "s", "table": name}


def create_shares(aws: Mapping[str, str], proxy: Proxy) -> tuple[tuple[str, str], str, str]:
    """Create three shares with three tables at three locations.

    Return the ids of a recipient with limits and of another without, and the first one's token and link secret.
    """
    s3, iam = client_of("s3", aws), client_of("iam", aws)
    s3.create_bucket(Bucket=ELSEWHERE)
    trust_all = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    role = {"RoleName": "elsewhere"}
    iam.create_role(**role, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust_all]}))
    document = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    iam.put_role_policy(**role, PolicyName="read", PolicyDocument=document)
    keys = AccessKeys(aws["AWS_ACCESS_KEY_ID"], aws["AWS_SECRET_ACCESS_KEY"])
    store: dict[str, Any] = {"endpoint": proxy.url, "path_style": True}
    storages = {"keyed": {**store, "access_keys": keys}, "roled": {**store, "role_arn": ROLE}}
    entries = [Entry(share, schema) for share in ("lent", "other", "third") for schema in ("s", "t")]
    options = {"checkpoint": True, "history": True, "access_modes": ["url", "dir"], "iceberg": "signed"}
    for name in (*TABLES, "large"):
        bucket, storage = (ELSEWHERE, name) if name in storages else (DATA_BUCKET, "")
        log = TableLog(
            s3, bucket, f"rights/{name}", pa.schema([column("id", pa.int64())]),
            configuration={"delta.enableChangeDataFeed": "true"}, timed=False,
        )  # fmt: skip
        log.create()
        for number in range(FILES + (name == "large")):
            log.commit(log.add([{"id": number}]))
        entries.append(
            Entry("lent", "s", name, log.location, {**options, "storage": storage, "checkpoint": name in TABLES})
        )
    of_glue: dict[str, Any] = {"format": "iceberg", "iceberg": "signed", "metadata_location": "glue://sales/orders"}
    properties = {**of_glue, "access_modes": ["dir"], "history": True}
    entries.append(Entry("other", "s", "of_glue", f"s3://{DATA_BUCKET}/orders", properties))
    entries.append(Entry("lent", "s", "iceberg", f"s3://{DATA_BUCKET}/rights/iceberg", create_iceberg_table(aws)))
    admin = catalog_of(aws)
    filled = fill(admin, entries, {"reader": ["lent", "other", "third"], "uncounted": ["lent", "other"]}, storages)
    for name in TABLES:
        bucket, storage = (DATA_BUCKET, "") if name == "home" else (ELSEWHERE, name)
        folder: dict[str, Any] = {"location": f"s3://{bucket}/rights/{name}", "storage": storage}
        admin.volumes.create("lent", "s", name, **folder)
        admin.skills.create("lent", "s", name, **folder, facts={"description": "d"})
        admin.models.create("lent", "s", name)
        for version in (1, 2):
            admin.models.add_version("lent", "s", name, version, **folder)
    reader = filled["reader"]
    admin.recipients.update("reader", requests_per_minute=1000, bytes_per_day=10**12)
    link = admin.invitations.create(reader.account, "https://shares.example/delta-sharing", overlap=timedelta(hours=1))
    return (reader.id, filled["uncounted"].id), reader.token, link.secret


def follow_sources(admin: CatalogAdmin) -> dict[str, Any]:
    """Let schemas follow the three folders, one of them in a filtered share, and a Glue database.

    Return the event of the schedule.
    """
    admin.grants.update("reader", "third", partition_filter="current_recipient('team') = 'a'")
    admin.follows.put("third", "s", f"s3://{DATA_BUCKET}/rights")
    admin.follows.put("third", "t", "glue:lake")
    for schema, storage in (("s", "keyed"), ("t", "roled")):
        admin.follows.put("other", schema, f"s3://{ELSEWHERE}/rights", storage=storage)
    return {}


def federate(aws: Mapping[str, str], issuer: Issuer) -> None:
    """Accept JWTs of the issuer's `alice` for the recipient."""
    admin = catalog_of(aws)
    reader = admin.recipients.get("reader")
    admin.federation.create(reader, issuer.url, audience="deltaic", claim="sub", subject="alice")


def token_requests(admin: CatalogAdmin) -> list[dict[str, Any]]:
    """Return requests for a client's token and for the public signing key."""
    issued = admin.clients.create(admin.recipients.get("reader"))
    form = {"grant_type": "client_credentials", "client_id": issued.client.id, "client_secret": issued.secret}
    token_request, key_request = event("oauth", "", {}), event("oauth", "", {}, method="GET")
    for request in (token_request, key_request):
        del request["headers"]["Authorization"], request["multiValueHeaders"]["Authorization"]
    token_request["body"] = urlencode(form)
    key_request["pathParameters"] = {"document": "jwks.json"}
    return [token_request, key_request]


def background_event(recipient_id: str, table: str = "home") -> dict[str, Any]:
    """Return the event of the function that generates metadata in the background."""
    name = {"share": "lent", "schema": "s", "table": table}
    caller = {"recipient_id": recipient_id, "token_id": "t", "recipient": "r", "source_ip": "127.0.0.1"}
    return {"table": name, **caller, "version": FILES, "note": f"made/b/{table}"}


def empty_bucket(s3: Any, bucket: str) -> None:
    """Empty a bucket."""
    keys = [{"Key": entry["Key"]} for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})


def create_iceberg_table(aws: Mapping[str, str]) -> dict[str, Any]:
    """Create an empty Iceberg table in AWS Glue, and return its settings in the catalog."""
    key = "rights/iceberg/metadata/00000-x.metadata.json"
    location, schema = f"s3://{DATA_BUCKET}/rights/iceberg", {"schema-id": 0, "type": "struct", "fields": []}
    document = {
        "format-version": 2,
        "table-uuid": "u",
        "location": location,
        "last-updated-ms": 4 * 10**12,
        "schemas": [schema],
        "partition-specs": [{"spec-id": 0, "fields": []}],
    }
    client_of("s3", aws).put_object(Bucket=DATA_BUCKET, Key=key, Body=json.dumps(document).encode())
    glue = client_of("glue", aws)
    glue.create_database(DatabaseInput={"Name": "lake"})
    parameters = {"table_type": "ICEBERG", "metadata_location": f"s3://{DATA_BUCKET}/{key}"}
    glue.create_table(DatabaseName="lake", TableInput={"Name": "empty", "Parameters": parameters})
    return {"format": "iceberg", "access_modes": ["url"], "history": True, "metadata_location": "glue://lake/empty"}


def iceberg_event(name: str, recipient_id: str, table: str = "home", **changed: Any) -> dict[str, Any]:
    return event(name, recipient_id, {"share": "lent", "namespace": "s", "table": table}, **changed)


def signatures(
    aws: Mapping[str, str], recipient_id: str, loaded: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield requests to sign a data file and a manifest list of each table."""
    list_objects = client_of("s3", aws).list_objects_v2
    for name, table in zip(TABLES, loaded, strict=True):
        bucket = DATA_BUCKET if name == "home" else ELSEWHERE
        keys = [entry["Key"] for entry in list_objects(Bucket=bucket, Prefix=f"rights/{name}/")["Contents"]]
        files = [f"{bucket}/{key}" for key in keys if "_delta_log" not in key][:1]
        manifest_list = str(table["metadata"]["snapshots"][-1]["manifest-list"]).removeprefix("s3://")
        token = table["config"]["s3.signer.endpoint"].partition("?set=")[2]
        for path in [*files, manifest_list]:
            request = {"method": "GET", "uri": f"https://s3.example/{path}"}
            yield iceberg_event("sign_iceberg_request", recipient_id, name, body=request, query={"set": token})


def requests(recipient_id: str, uncounted: str, link: str) -> dict[str, list[dict[str, Any]]]:
    """Return requests that use all permissions of the endpoints, by function."""

    def events_for(name: str, tables: tuple[str, ...] = TABLES, **changed: Any) -> list[dict[str, Any]]:
        return [event(name, recipient_id, table(table_name), **changed) for table_name in tables]

    first: dict[str, Any] = {"query": {"maxResults": "1"}}

    def asset(
        name: str, kind: str, caller: str = recipient_id, location: str = "home", **changed: Any
    ) -> dict[str, Any]:
        names = {"share": "lent", "schema": "s", kind: location, **({"version": "1"} if kind == "model" else {})}
        return event(name, caller, {**names, "volume": location}, **changed) | {
            "pathParameters": names,
            "resource": KINDS[kind],
        }

    def list_events(kind: str) -> list[dict[str, Any]]:
        base = asset("list_assets", kind, **first)
        routes = [f"/shares/{{share}}/all-{kind}s", f"{SCHEMA}/{kind}s", f"{SCHEMA}/{kind}s/{{{kind}}}"]
        if kind == "model":
            routes += [f"{routes[-1]}/versions", KINDS[kind]]
        names: dict[str, str] = base["pathParameters"]
        parameters = {route: {name: names[name] for name in names if f"{{{name}}}" in route} for route in routes}
        return [{**base, "resource": route, "pathParameters": parameters[route]} for route in routes]

    def files(kind: str) -> list[dict[str, Any]]:
        paths = {"paths": ["_delta_log/00000000000000000000.json"]}
        signed = [asset("list_asset_files", kind, location=name, method="POST", body=paths) for name in TABLES]
        return [*(asset("list_asset_files", kind, location=name, **first) for name in TABLES), *signed]

    credentials = [
        asset("create_asset_credentials", kind, uncounted, name, body={})
        for kind in KINDS
        for name in ("home", "roled")
    ]

    return {
        "GetTable": events_for("get_table", ("home",)),
        "ListAssets": [request for kind in KINDS for request in list_events(kind)],
        "ListAssetFiles": [request for kind in KINDS for request in files(kind)],
        "CreateAssetCredentials": [*credentials, *(asset("create_asset_credentials", kind, body={}) for kind in KINDS)],
        "GetContract": events_for("get_contract", ("home",)),
        "ExplorePage": [event("explore", "", {"file": "page.js"})],
        "Preflight": [event("preflight", "", {}, method="OPTIONS")],
        "Activation": [event("activation", "", {"secret": link}, method=method) for method in ("GET", "POST")],
        "ListShares": events_for("list_shares", ("home",), **first),
        "GetShare": events_for("get_share", ("home",)),
        "ListSchemas": events_for("list_schemas", ("home",), **first),
        "ListTables": events_for("list_tables", ("home",), **first),
        "ListAllTables": events_for("list_all_tables", ("home",), **first),
        "GetTableVersion": events_for("get_table_version", QUERIED),
        "GetTableMetadata": events_for("get_table_metadata", QUERIED),
        "ListTableChanges": events_for("list_table_changes", QUERIED, query={"startingVersion": "0", "maxFiles": "1"}),
        "ListIceberg": [
            {
                **iceberg_event("list_iceberg", recipient_id, query={"warehouse": "lent"}),
                "resource": "/iceberg/v1/config",
            },
            iceberg_event("list_iceberg", recipient_id),
        ],
        "CreateTableCredentials": [
            *(event("create_table_credentials", uncounted, table(name), body={}) for name in ("home", "roled")),
            *events_for("create_table_credentials", ("home",), body={}),
        ],
    }


def test_every_function_is_watched(used_rights: UsedRights) -> None:
    expected = set(used_rights.template.functions) - NOT_RUN
    assert set(used_rights.used) == expected, (
        "add requests that use each permission of the function to requests() in this file"
    )


FUNCTIONS = sorted(load_template(parameters=PARAMETERS).functions.keys() - NOT_RUN)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_uses_all_its_rights_and_has_all_that_it_uses(used_rights: UsedRights, function: str) -> None:
    assert function in used_rights.used, f"requests() in this file has no request for {function}"
    granted = rights(function, used_rights.template)
    assert bool(granted) == (function not in NEEDS_NOTHING)
    assert unused(granted, used_rights.used[function]) == set()
    assert refused(granted, used_rights.used[function]) == set()


def test_a_right_too_many_and_one_too_few_are_found(used_rights: UsedRights) -> None:
    granted, used = rights("GetShare", used_rights.template), used_rights.used["GetShare"]
    catalog = next(resource for _, resource, _ in granted)
    for unnecessary in (("dynamodb:Scan", catalog, ""), ("dynamodb:BatchGetItem", catalog, "storages")):
        assert unused({*granted, unnecessary}, used) == {unnecessary}
    insufficient = {right for right in granted if right[2] != "shares"}
    assert {use.key for use in refused(insufficient, used)} == {"shares"}
