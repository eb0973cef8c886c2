"""No function has a right that it does not use, and none uses what it has no right to: each one is run and watched."""

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
"""A bucket of storages, which are read with keys or as a role of theirs."""
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
"""No emulator has EMR Serverless: tests/deploy/test_jobs.py runs it against a stand-in, as its role."""
NEEDS_NOTHING = {"ExplorePage", "GetContract", "Preflight"}
"""Its answer is in its code."""

Right = tuple[str, str, str]
"""An action, a pattern of resources, and of DynamoDB a pattern of partition keys."""
Granted = Mapping[str, set[Right]]


@dataclass(frozen=True)
class Seen:
    """What each function used, by its logical id."""

    template: Template
    used: Mapping[str, set[Used]]


def rights(function: str, template: Template) -> set[Right]:
    """Return what a function's role may do, with the names of this machine's resources."""
    resources = transformed(parameters=PARAMETERS)
    tables = {name: table["TableName"] for name, table in template.tables.items()}
    names = {f"${{{name}.Arn}}": f"arn:aws:dynamodb:{ACCOUNT}:table/{table}" for name, table in tables.items()}
    names |= {f"${{{name}}}": table for name, table in tables.items()}
    names["${IcebergBucket}"] = template.buckets[0]
    names["${OAuthKey.Arn}"] = f"arn:aws:kms:{ACCOUNT}:{template.signing_keys[0]}"  # asked for by its alias
    names["${SigningRole.Arn}"] = template.functions["QueryTable"].environment["SIGNING_ROLE_ARN"]
    found = set()
    for statement in statements(resources, function):
        keys = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", [""])
        for action in several(statement["Action"]):
            for resource in several(statement["Resource"]):
                named = re.sub(r"\$\{[\w.]+\}", lambda symbol: names[symbol[0]], resource)
                found |= {(action, named, key) for key in keys}
    return found


def covers(right: Right, used: Used) -> bool:
    action, resource, key = right
    return action == used.action and fnmatchcase(used.resource, resource) and fnmatchcase(used.key, key)


def unused(granted: set[Right], used: set[Used]) -> set[Right]:
    return {right for right in granted if not any(covers(right, one) for one in used)}


def refused(granted: set[Right], used: set[Used]) -> set[Used]:
    return {one for one in used if not any(covers(right, one) for right in granted)}


def token_in(answer: Mapping[str, Any]) -> str:
    """Return the token of the profile in the page of a link."""
    [profile] = re.findall(r'href="data:application/json;base64,([^"]+)"', answer["body"])
    token: str = json.loads(base64.b64decode(profile))["bearerToken"]
    return token


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    template = load_template(parameters=PARAMETERS)
    with ExitStack() as parts:
        aws = dict(parts.enter_context(local_stack(tmp_path_factory.mktemp("rights"))).environment)
        proxy = parts.enter_context(Proxy(aws["AWS_ENDPOINT_URL"]).open())
        (recipient_id, uncounted), token, link = lend(aws, proxy)
        used: dict[str, set[Used]] = {}
        variables = {name: aws[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}

        def ask(function: str, *events: Mapping[str, Any]) -> list[dict[str, Any]]:
            answers, calls = run(template.functions[function], variables, proxy, events)
            # What a storage's own keys or role read needs no right of the function's.
            used[function] = {one for one in calls if f":::{ELSEWHERE}" not in one.resource}
            return answers

        first = {name: ask(name, *events) for name, events in requests(recipient_id, uncounted, link).items()}
        for function, answers in first.items():
            for _ in range(REFUSED.get(function, 0)):
                assert answers.pop()["statusCode"] == 400
            for answer in answers:
                assert answer["statusCode"] == (204 if function == "Preflight" else 200), (function, answer)
        asked = {
            "body": {"idempotencyKey": "k", "maxFiles": 1},
            "capabilities": "responseformat=parquet;asyncquery=true",
        }
        answers = ask(
            "QueryTable",
            *(event("query_table", recipient_id, table(name), body={"maxFiles": 1}) for name in TABLES),
            *(event("query_table", recipient_id, table(name), **asked) for name in TABLES),
        )
        assert {answer["statusCode"] for answer in answers} == {200}, answers
        queries = [json.loads(answer["body"])["queryStatus"]["queryId"] for answer in answers[len(TABLES) :]]
        results = [
            event("get_query", recipient_id, {**table(name), "queryId": query}, body={"maxFiles": 1})
            for name, query in zip(TABLES, queries, strict=True)
        ]
        answers = ask("GetQuery", *results)
        assert {answer["statusCode"] for answer in answers} == {200}, answers
        made = ask("MakeIcebergMetadata", *(making(uncounted, name) for name in TABLES), making(recipient_id))
        assert [answer.get("listedFiles") for answer in made] == [FILES] * (len(TABLES) + 1)
        forget(client_of("s3", aws), template.buckets[0])
        variables["ICEBERG_FILES_AT_ONCE"] = str(FILES)
        loading = [iceberg_event("load_iceberg_table", uncounted, name) for name in TABLES]
        of_glue = {"share": "other", "namespace": "s", "table": "of_glue"}
        loading.append(event("load_iceberg_table", uncounted, of_glue))
        others = [iceberg_event("load_iceberg_table", *one) for one in ((recipient_id,), (uncounted, "large"))]
        *loaded, unknown, of_limited, not_yet = ask("LoadIcebergTable", *loading, *others)
        assert not_yet["statusCode"] == 503
        signing = signatures(aws, uncounted, [json.loads(answer["body"]) for answer in loaded])
        *signed, refused_one = ask("SignIcebergRequest", *signing, iceberg_event("sign_iceberg_request", recipient_id))
        assert {answer["statusCode"] for answer in (*loaded, *signed)} == {200}, (loaded, signed)
        # Glue knows no such table; a recipient whose bytes are counted is served as others are.
        assert [answer["statusCode"] for answer in (unknown, of_limited, refused_one)] == [406, 200, 403]
        arn = "arn:aws:execute-api:us-east-1:123456789012:a1b2c3d4e5/delta-sharing/GET/shares"
        with running() as issuer:
            federate(aws, issuer)
            answers = ask("OAuth", *token_requests(catalog_of(aws)))
            assert {answer["statusCode"] for answer in answers} == {200}, answers
            own = json.loads(answers[0]["body"])["access_token"]
            bearers = [f"Bearer {one}" for one in (token, token_in(first["Activation"][-1]), issuer.token(), own)]
            ask("Authorizer", *({"type": "TOKEN", "authorizationToken": one, "methodArn": arn} for one in bearers))
        [round_] = ask("CheckpointTables", {})
        assert (round_["written"], round_["failed"]) == (3, 0)
        endings, looked = ask("SendNotices", {"tell": "endings"}, {"tell": "versions"})
        assert endings["told"] > 0
        assert (looked["unchanged"], looked["failed"]) == (4, 0)
        # The volumes of the same folders would open to all what a grant of some rows does not.
        assert ask("FollowTables", have_followed(catalog_of(aws))) == [
            {"follows": 4, "failed": 0, "left": 0, "added": 5, "refused": 1}
        ]
        yield Seen(template, used)


TABLES = ("home", "keyed", "roled")
FILES = 11
SCHEMA = "/shares/{share}/schemas/{schema}"
KINDS = {
    "volume": f"{SCHEMA}/volumes/{{volume}}",
    "skill": f"{SCHEMA}/skills/{{skill}}",
    "model": f"{SCHEMA}/models/{{model}}/versions/{{version}}",
}
"""The kinds of assets, and the route of a folder of each."""
REFUSED = {"CreateTableCredentials": 1, "CreateAssetCredentials": len(KINDS)}
"""How many of the last answers refuse: a recipient whose bytes are counted gets no credentials, which nobody counts."""


def table(name: str) -> dict[str, str]:
    return {"share": "lent", "schema": "s", "table": name}


def lend(aws: Mapping[str, str], proxy: Proxy) -> tuple[tuple[str, str], str, str]:
    """Make three shares with three tables in three places.

    Return the ids of a recipient with limits and of one without, the first one's token and its link's secret.
    """
    s3, iam = client_of("s3", aws), client_of("iam", aws)
    s3.create_bucket(Bucket=ELSEWHERE)
    anybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    role = {"RoleName": "elsewhere"}
    iam.create_role(**role, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [anybody]}))
    document = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    iam.put_role_policy(**role, PolicyName="read", PolicyDocument=document)
    keys = AccessKeys(aws["AWS_ACCESS_KEY_ID"], aws["AWS_SECRET_ACCESS_KEY"])
    at: dict[str, Any] = {"endpoint": proxy.url, "path_style": True}
    storages = {"keyed": {**at, "access_keys": keys}, "roled": {**at, "role_arn": ROLE}}
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
    own = {**of_glue, "access_modes": ["dir"], "history": True}
    entries.append(Entry("other", "s", "of_glue", f"s3://{DATA_BUCKET}/orders", own))
    admin = catalog_of(aws)
    filled = fill(admin, entries, {"reader": ["lent", "other", "third"], "uncounted": ["lent", "other"]}, storages)
    for name in TABLES:
        bucket, storage = (DATA_BUCKET, "") if name == "home" else (ELSEWHERE, name)
        where: dict[str, Any] = {"location": f"s3://{bucket}/rights/{name}", "storage": storage}
        admin.volumes.create("lent", "s", name, **where)
        admin.skills.create("lent", "s", name, **where, facts={"description": "d"})
        admin.models.create("lent", "s", name)
        for version in (1, 2):
            admin.models.add_version("lent", "s", name, version, **where)
    reader = filled["reader"]
    admin.recipients.update("reader", requests_per_minute=1000, bytes_per_day=10**12)
    link = admin.invitations.create(reader.account, "https://shares.example/delta-sharing", overlap=timedelta(hours=1))
    return (reader.id, filled["uncounted"].id), reader.token, link.secret


def have_followed(admin: CatalogAdmin) -> dict[str, Any]:
    """Let schemas follow the folders of the three places, one of them in a share that is held in part, and Glue.

    Return a schedule's event.
    """
    admin.grants.update("reader", "third", partition_filter="current_recipient('team') = 'a'")
    admin.follows.put("third", "s", f"s3://{DATA_BUCKET}/rights")
    admin.follows.put("third", "t", "glue:sales")
    for schema, storage in (("s", "keyed"), ("t", "roled")):
        admin.follows.put("other", schema, f"s3://{ELSEWHERE}/rights", storage=storage)
    return {}


def federate(aws: Mapping[str, str], issuer: Issuer) -> None:
    """Let the issuer's `alice` be the recipient."""
    admin = catalog_of(aws)
    reader = admin.recipients.get("reader")
    admin.federation.create(reader, issuer.url, audience="deltaic", claim="sub", subject="alice")


def token_requests(admin: CatalogAdmin) -> list[dict[str, Any]]:
    """Return a request for a token by a client of the recipient, and one for the key that signs it."""
    issued = admin.clients.create(admin.recipients.get("reader"))
    form = {"grant_type": "client_credentials", "client_id": issued.client.id, "client_secret": issued.secret}
    asked, named = event("oauth", "", {}), event("oauth", "", {}, method="GET")
    for one in (asked, named):
        del one["headers"]["Authorization"], one["multiValueHeaders"]["Authorization"]
    asked["body"] = urlencode(form)
    named["pathParameters"] = {"document": "jwks.json"}
    return [asked, named]


def making(recipient_id: str, table: str = "home") -> dict[str, Any]:
    """Return what the function is told that makes metadata in the background."""
    name = {"share": "lent", "schema": "s", "table": table}
    who = {"recipient_id": recipient_id, "token_id": "t", "recipient": "r", "source_ip": "127.0.0.1"}
    return {"table": name, **who, "version": FILES, "note": f"made/b/{table}"}


def forget(s3: Any, bucket: str) -> None:
    """Empty a bucket."""
    keys = [{"Key": one["Key"]} for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})


def iceberg_event(name: str, recipient_id: str, table: str = "home", **changed: Any) -> dict[str, Any]:
    return event(name, recipient_id, {"share": "lent", "namespace": "s", "table": table}, **changed)


def signatures(
    aws: Mapping[str, str], recipient_id: str, loaded: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield requests to have a data file of each table signed, and what was made of one."""
    listed = client_of("s3", aws).list_objects_v2
    for name, table in zip(TABLES, loaded, strict=True):
        bucket = DATA_BUCKET if name == "home" else ELSEWHERE
        keys = [one["Key"] for one in listed(Bucket=bucket, Prefix=f"rights/{name}/")["Contents"]]
        files = [f"{bucket}/{key}" for key in keys if "_delta_log" not in key][:1]
        made = str(table["metadata"]["snapshots"][-1]["manifest-list"]).removeprefix("s3://")
        token = table["config"]["s3.signer.endpoint"].partition("?set=")[2]
        for place in [*files, made]:
            asked = {"method": "GET", "uri": f"https://s3.example/{place}"}
            yield iceberg_event("sign_iceberg_request", recipient_id, name, body=asked, query={"set": token})


def requests(recipient_id: str, uncounted: str, link: str) -> dict[str, list[dict[str, Any]]]:
    """Return requests that need all that an endpoint can, by its function."""

    def of(name: str, tables: tuple[str, ...] = TABLES, **changed: Any) -> list[dict[str, Any]]:
        return [event(name, recipient_id, table(one), **changed) for one in tables]

    first: dict[str, Any] = {"query": {"maxResults": "1"}}

    def asset(name: str, kind: str, who: str = recipient_id, at: str = "home", **changed: Any) -> dict[str, Any]:
        names = {"share": "lent", "schema": "s", kind: at, **({"version": "1"} if kind == "model" else {})}
        return event(name, who, {**names, "volume": at}, **changed) | {"pathParameters": names, "resource": KINDS[kind]}

    def listed(kind: str) -> list[dict[str, Any]]:
        one = asset("list_assets", kind, **first)
        routes = [f"/shares/{{share}}/all-{kind}s", f"{SCHEMA}/{kind}s", f"{SCHEMA}/{kind}s/{{{kind}}}"]
        if kind == "model":
            routes += [f"{routes[-1]}/versions", KINDS[kind]]
        names: dict[str, str] = one["pathParameters"]
        named = {route: {name: names[name] for name in names if f"{{{name}}}" in route} for route in routes}
        return [{**one, "resource": route, "pathParameters": named[route]} for route in routes]

    def files(kind: str) -> list[dict[str, Any]]:
        paths = {"paths": ["_delta_log/00000000000000000000.json"]}
        signed = [asset("list_asset_files", kind, at=at, method="POST", body=paths) for at in TABLES]
        return [*(asset("list_asset_files", kind, at=at, **first) for at in TABLES), *signed]

    vended = [
        asset("create_asset_credentials", kind, uncounted, at, body={}) for kind in KINDS for at in ("home", "roled")
    ]

    return {
        "GetTable": of("get_table", ("home",)),
        "ListAssets": [one for kind in KINDS for one in listed(kind)],
        "ListAssetFiles": [one for kind in KINDS for one in files(kind)],
        "CreateAssetCredentials": [*vended, *(asset("create_asset_credentials", kind, body={}) for kind in KINDS)],
        "GetContract": of("get_contract", ("home",)),
        "ExplorePage": [event("explore", "", {"file": "page.js"})],
        "Preflight": [event("preflight", "", {}, method="OPTIONS")],
        "Activation": [event("activation", "", {"secret": link}, method=method) for method in ("GET", "POST")],
        "ListShares": of("list_shares", ("home",), **first),
        "GetShare": of("get_share", ("home",)),
        "ListSchemas": of("list_schemas", ("home",), **first),
        "ListTables": of("list_tables", ("home",), **first),
        "ListAllTables": of("list_all_tables", ("home",), **first),
        "GetTableVersion": of("get_table_version"),
        "GetTableMetadata": of("get_table_metadata"),
        "ListTableChanges": of("list_table_changes", query={"startingVersion": "0", "maxFiles": "1"}),
        "ListIceberg": [
            {
                **iceberg_event("list_iceberg", recipient_id, query={"warehouse": "lent"}),
                "resource": "/iceberg/v1/config",
            },
            iceberg_event("list_iceberg", recipient_id),
        ],
        "CreateTableCredentials": [
            *(event("create_table_credentials", uncounted, table(one), body={}) for one in ("home", "roled")),
            *of("create_table_credentials", ("home",), body={}),
        ],
    }


def test_every_function_is_watched(seen: Seen) -> None:
    watched = set(seen.template.functions) - NOT_RUN
    assert set(seen.used) == watched, "add to requests() of this file a request for each thing that a function can do"


FUNCTIONS = sorted(load_template(parameters=PARAMETERS).functions.keys() - NOT_RUN)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_uses_all_its_rights_and_has_all_that_it_uses(seen: Seen, function: str) -> None:
    assert function in seen.used, f"requests() of this file has no request for {function}"
    granted = rights(function, seen.template)
    assert bool(granted) == (function not in NEEDS_NOTHING)
    assert unused(granted, seen.used[function]) == set()
    assert refused(granted, seen.used[function]) == set()


def test_a_right_too_many_and_one_too_few_are_found(seen: Seen) -> None:
    granted, used = rights("GetShare", seen.template), seen.used["GetShare"]
    catalog = next(resource for _, resource, _ in granted)
    for more in (("dynamodb:Scan", catalog, ""), ("dynamodb:BatchGetItem", catalog, "storages")):
        assert unused({*granted, more}, used) == {more}
    fewer = {right for right in granted if right[2] != "shares"}
    assert {one.key for one in refused(fewer, used)} == {"shares"}
