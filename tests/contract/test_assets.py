"""Volumes, skills, models and their versions as OpenSharing has them, and this server's own files by signed URLs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError
from contract.recipient import Recipient
from contract.test_listings import names, pages
from deltaic.catalog.admin.storage_admin import AccessKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from contract.server import Server

SCHEMA = "/shares/assets/schemas/Folders"
VOLUME = f"{SCHEMA}/volumes/scans"
SKILL = f"{SCHEMA}/skills/read-forms"
VERSION = f"{SCHEMA}/models/dosage/versions/3"
ODD = ["a b+%20.txt", "~a&b=c?d#e.txt", "deep/er/\u00e9\u4e2d.txt", "quote'\"<>.txt"]
FILES = {"one.pdf": b"1", "two.pdf": b"22", "empty": b"", **{name: name.encode() for name in ODD}}
UNNAMED = ["x//y", "../z", "./w", "deep/../v"]
INVALID = (400, "INVALID_PARAMETER_VALUE")
FOLDERS = {"volume": VOLUME, "skill": SKILL, "model-version": VERSION}
each_folder = pytest.mark.parametrize("kind", FOLDERS)


@pytest.fixture(scope="module")
def erik(server: Server) -> Recipient:
    """Return a recipient of the share `assets`, which has no table."""
    admin, bucket, s3 = server.admin, server.shelf.bucket, server.client("s3")
    admin.shares.create("Assets")
    for schema in ("Folders", "Others", "Empty"):
        admin.schemas.create("assets", schema)
    here = f"s3://{bucket}"
    admin.volumes.create("assets", "folders", "Scans", f"{here}/vol1", comment="paper")
    admin.volumes.create("assets", "folders", "by-dir", f"s3a://{bucket}/vol1", access_modes=["dir"])
    admin.volumes.create("assets", "folders", "by-url", f"{here}/vol1", access_modes=["url"])
    admin.volumes.create("assets", "others", "scans", f"{here}/vol1x")
    keys = AccessKeys(server.environment["AWS_ACCESS_KEY_ID"], server.environment["AWS_SECRET_ACCESS_KEY"])
    endpoint = server.environment["AWS_ENDPOINT_URL"]
    admin.storages.create("assets-keyed", endpoint=endpoint, path_style=True, access_keys=keys)
    admin.volumes.create("assets", "others", "keyed", f"{here}/vol1", storage="assets-keyed")
    admin.volumes.create("assets", "others", "nowhere", "s3://no-such-bucket-anywhere/x")
    facts = {"description": "Reads forms.", "license": "MIT", "allowed_tools": "Read Grep", "metadata": {"v": "1.0"}}
    admin.skills.create("assets", "folders", "read-forms", f"{here}/vol1/read-forms", facts=facts)
    admin.models.create("assets", "folders", "dosage", comment="by weight")
    admin.models.create("assets", "folders", "untrained")
    for version in (3, 20, 100):
        facts = {"run_id": "r", "source": "runs:/r/model"}
        admin.models.add_version("assets", "folders", "dosage", version, f"{here}/vol1", comment="c", facts=facts)
    contents = {f"vol1/{name}": body for name, body in FILES.items()}
    contents |= {f"vol1/{name}": b"x" for name in UNNAMED} | {"vol1/": b"", "vol1/mark/": b""}
    contents |= {"vol1/read-forms/SKILL.md": b"---", "vol1x/secret": b"s", "vol2/secret": b"s"}
    for key, body in contents.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    account = admin.recipients.create("erik")
    admin.grants.create("erik", "assets")
    return Recipient(server.endpoint, admin.tokens.create(account).secret)


def test_a_schema_without_tables_is_listed(erik: Recipient) -> None:
    assert names(erik.get("/shares")) == ["Assets"]
    assert names(erik.get("/shares/assets/schemas")) == ["Empty", "Folders", "Others"]
    assert erik.get("/shares/assets/all-tables").json == {"items": []}


def test_a_volume_has_the_fields_of_the_specification(erik: Recipient, server: Server) -> None:
    volume = server.admin.volumes.get("assets", "folders", "scans")
    response = erik.get(VOLUME.replace("scans", "sCANS")).json
    assert response == {
        "name": "Scans", "schema": "Folders", "share": "Assets", "shareId": volume.share_id, "id": volume.id,
        "storageLocation": f"s3://{server.shelf.bucket}/vol1", "comment": "paper", "accessModes": ["url", "dir"],
    }  # fmt: skip
    assert response in erik.get(f"{SCHEMA}/volumes").json["items"]
    assert erik.get(f"{SCHEMA}/volumes/by-dir").json["storageLocation"] == response["storageLocation"]


def test_a_skill_and_a_model_have_the_fields_of_the_specification(erik: Recipient, server: Server) -> None:
    skill, version = erik.get(SKILL).json, erik.get(VERSION).json
    here = f"s3://{server.shelf.bucket}/vol1"
    assert {name: skill[name] for name in skill if name not in {"id", "shareId"}} == {
        "name": "read-forms", "schema": "Folders", "share": "Assets", "storageLocation": f"{here}/read-forms",
        "description": "Reads forms.", "license": "MIT", "allowedTools": "Read Grep", "metadata": {"v": "1.0"},
        "accessModes": ["url", "dir"],
    }  # fmt: skip
    assert erik.get(f"{SCHEMA}/skills").json == {"items": [skill]} == erik.get("/shares/assets/all-skills").json
    assert {name: version[name] for name in version if name != "id"} == {
        "modelName": "dosage", "schema": "Folders", "share": "Assets", "version": 3, "status": "READY",
        "storageLocation": here, "source": "runs:/r/model", "runId": "r", "comment": "c", "accessModes": ["url", "dir"],
    }  # fmt: skip
    model = erik.get(f"{SCHEMA}/models/DOSAGE").json
    assert model.keys() == {"name", "schema", "share", "shareId", "id", "comment"}
    assert names(erik.get(f"{SCHEMA}/models")) == ["dosage", "untrained"]
    assert [item["version"] for item in erik.get(f"{SCHEMA}/models/dosage/versions").json["items"]] == [3, 20, 100]
    assert erik.get(f"{SCHEMA}/models/untrained/versions").json == {"items": []}


LISTINGS = {
    "all-volumes": "/shares/assets/all-volumes",
    "volumes": f"{SCHEMA}/volumes",
    "all-models": "/shares/assets/all-models",
    "versions": f"{SCHEMA}/models/dosage/versions",
}


@pytest.mark.parametrize("path", LISTINGS.values(), ids=LISTINGS)
def test_pages_of_a_listing_join_to_the_complete_listing(erik: Recipient, path: str) -> None:
    items = erik.get(path).json["items"]
    assert len(items) >= 2
    assert [item for page in pages(erik, path, 1) for item in page] == items
    assert erik.get(f"{path}?maxResults=0").json["items"] == []
    erik.get(f"{path}?maxResults=501").refused(*INVALID)
    token = erik.get(f"{path}?maxResults=1").json["nextPageToken"]
    for other_path in {*LISTINGS.values()} - {path}:
        erik.get(f"{other_path}?pageToken={token}").refused(*INVALID, "invalid 'nextPageToken'")


def test_a_page_of_long_items_ends_before_the_size_limit(server: Server) -> None:
    admin = server.admin
    admin.shares.create("long")
    admin.schemas.create("long", "s")
    names = [f"skill-{number:02d}" for number in range(16)]
    for name in names:
        facts = {"description": "d", "license": "x" * 380_000}
        admin.skills.create("long", "s", name, f"s3://{server.shelf.bucket}/long/{name}", facts=facts)
    account = admin.recipients.create("frida")
    admin.grants.create("frida", "long")
    frida = Recipient(server.endpoint, admin.tokens.create(account).secret)
    path = "/shares/long/all-skills"
    first = frida.get(path)
    assert first.status == 200, first.status
    last = frida.get(f"{path}?pageToken={first.json['nextPageToken']}")
    assert [item["name"] for page in (first, last) for item in page.json["items"]] == names
    assert "nextPageToken" not in last.json


ABSENT = [
    "/shares/assets/schemas/folders/volumes/none",
    "/shares/assets/schemas/none/volumes/scans",
    "/shares/none/schemas/folders/volumes/scans",
    f"{SCHEMA}/skills/scans",
    f"{SCHEMA}/models/scans",
    f"{SCHEMA}/models/none/versions",
    f"{SCHEMA}/models/dosage/versions/4",
    f"{SCHEMA}/models/dosage/versions/x",
    f"{SCHEMA}/models/dosage/versions/-3",
    f"{SCHEMA}/models/dosage/versions/99999999999999999999",
    "/shares/none/all-volumes",
    f"{SCHEMA.replace('Folders', 'None')}/volumes",
]


@pytest.mark.parametrize("path", ABSENT)
def test_missing_assets_are_404(erik: Recipient, path: str) -> None:
    erik.get(path).refused(404, "RESOURCE_DOES_NOT_EXIST")


def test_without_a_grant_existing_and_missing_assets_look_the_same(server: Server, erik: Recipient) -> None:
    assert erik.get(VOLUME).status == 200
    for method, path in (
        ("GET", VOLUME), ("GET", SKILL), ("GET", VERSION), ("GET", f"{VOLUME}/files"),
        ("POST", f"{VOLUME}/temporary-volume-credentials"), ("POST", f"{VERSION}/temporary-model-credentials"),
    ):  # fmt: skip
        stranger = replace(erik, token=server.readers["bob"].token)
        existing = stranger.ask(method, path)
        absent = stranger.ask(method, path.replace("/assets/", "/absent/"))
        assert existing.status == 404
        assert existing.body == absent.body.replace(b"absent/", b"assets/")


def test_a_filtered_grant_includes_only_tables(server: Server, erik: Recipient) -> None:
    account = server.admin.recipients.create("half")
    server.admin.grants.create("half", "assets", partition_filter="region = 'eu'")
    half = replace(erik, token=server.admin.tokens.create(account).secret)
    assert half.get("/shares/assets/all-volumes").json == {"items": []}
    assert names(half.get("/shares/assets/schemas")) == ["Empty", "Folders", "Others"]
    for path in (VOLUME, SKILL, VERSION, f"{VOLUME}/files"):
        half.get(path).refused(404, "RESOURCE_DOES_NOT_EXIST")
    half.post(f"{VOLUME}/temporary-volume-credentials", {}).refused(404, "RESOURCE_DOES_NOT_EXIST")


# ---------------------------------------------------------------------------------------------------- credentials


def vend(erik: Recipient, path: str) -> Any:
    reply = erik.ask("POST", path)
    assert reply.status == 200, reply.body
    return reply.json


def s3_with(response: dict[str, Any]) -> Any:
    keys = response["awsTempCredentials"]
    session = boto3.Session(keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"], region_name="us-east-1")
    return session.client("s3", endpoint_url=response["endpoint"])


@each_folder
def test_credentials_can_only_read_and_list_their_folder(server: Server, erik: Recipient, kind: str) -> None:
    before = time.time()
    response = vend(erik, f"{FOLDERS[kind]}/temporary-{kind}-credentials")
    assert response.keys() == {"awsTempCredentials", "expirationTime", "region", "endpoint"}
    assert before + 44 * 60 < response["expirationTime"] / 1000 <= time.time() + 3601
    bucket, s3 = server.shelf.bucket, s3_with(response)
    folder = "vol1/read-forms/" if kind == "skill" else "vol1/"
    objects = s3.list_objects_v2(Bucket=bucket, Prefix=folder)["Contents"]
    assert len(objects) == (1 if kind == "skill" else len(FILES) + len(UNNAMED) + 3)
    assert s3.get_object(Bucket=bucket, Key=objects[-1]["Key"])["Body"].read() is not None
    attempts: list[Callable[[], object]] = [
        lambda: s3.get_object(Bucket=bucket, Key="vol1x/secret"),
        lambda: s3.get_object(Bucket=bucket, Key="vol2/secret"),
        lambda: s3.list_objects_v2(Bucket=bucket),
        lambda: s3.list_objects_v2(Bucket=bucket, Prefix="vol1"),
        lambda: s3.list_objects_v2(Bucket=bucket, Prefix="vol1x/"),
        lambda: s3.list_objects_v2(Bucket=bucket, Prefix="vol2/"),
        lambda: s3.put_object(Bucket=bucket, Key=f"{folder}new", Body=b""),
        lambda: s3.delete_object(Bucket=bucket, Key=objects[0]["Key"]),
    ]
    if kind == "skill":
        attempts.append(lambda: s3.get_object(Bucket=bucket, Key="vol1/one.pdf"))
    for attempt in attempts:
        with pytest.raises(ClientError) as caught:
            attempt()
        assert caught.value.response["Error"]["Code"] == "AccessDenied"


def test_a_models_credentials_have_two_names(erik: Recipient) -> None:
    responses = [vend(erik, f"{VERSION}/temporary-{name}-credentials") for name in ("model", "model-version")]
    assert responses[0] == responses[1]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(f"{SCHEMA}/volumes/by-url", "shared by pre-signed URLs only", id="by_url"),
        pytest.param(f"{SCHEMA.replace('Folders', 'Others')}/volumes/keyed", "needs a role", id="static_keys"),
    ],
)
def test_a_folder_without_directory_access_returns_no_credentials(erik: Recipient, path: str, text: str) -> None:
    erik.ask("POST", f"{path}/temporary-volume-credentials").refused(400, "UNSUPPORTED_OPERATION", text)


# ----------------------------------------------------------------------------------------------------------- files


def list_files(erik: Recipient, folder: str = VOLUME, **query: str) -> list[dict[str, Any]]:
    """Return all pages of a listing."""
    items: list[dict[str, Any]] = []
    token: str | None = None
    while token or not items:
        parameters = {**query, **({"pageToken": token} if token else {})}
        reply = erik.get(f"{folder}/files?" + "&".join(f"{name}={quote(value)}" for name, value in parameters.items()))
        assert reply.status == 200, reply.body
        items.append(reply.json)
        token = reply.json.get("nextPageToken")
    return items


def sign(erik: Recipient, paths: list[str], folder: str = VOLUME) -> Any:
    reply = erik.post(f"{folder}/files", {"paths": paths})
    assert reply.status == 200, reply.body
    return reply.json


EXPECTED = sorted([*FILES, "read-forms/SKILL.md"], key=str.encode)


@pytest.mark.parametrize("size", ["1", "3", "1000"])
@pytest.mark.parametrize("folder", [VOLUME, VERSION, f"{SCHEMA.replace('Folders', 'Others')}/volumes/keyed"])
def test_files_are_listed_in_pages_of_any_size(erik: Recipient, size: str, folder: str) -> None:
    files = list_files(erik, folder, maxResults=size)
    items = [item for page in files for item in page["items"]]
    assert [item["name"] for item in items] == EXPECTED
    assert {item["name"]: item["size"] for item in items if item["name"] in FILES} == {
        name: len(body) for name, body in FILES.items()
    }
    assert all(item.keys() == {"name", "size", "lastModified", "etag"} for item in items)
    # Those that no client could name are counted; marks of folders are no files.
    assert sum(page.get("leftOut", 0) for page in files) == len(UNNAMED)


def test_a_prefix_and_a_delimiter_list_one_level_of_a_folder(erik: Recipient) -> None:
    [page] = list_files(erik, delimiter="/")
    assert page["folders"] == ["deep/", "mark/", "read-forms/", "x/"]
    assert [item["name"] for item in page["items"]] == [name for name in EXPECTED if "/" not in name]
    [page] = list_files(erik, prefix="deep/er/", delimiter="/")
    assert [item["name"] for item in page["items"]] == ["deep/er/\u00e9\u4e2d.txt"]
    assert [item["name"] for page in list_files(erik, prefix="t") for item in page["items"]] == ["two.pdf"]
    assert list_files(erik, prefix="none") == [{"items": []}]


def test_signed_urls_read_the_listed_files(erik: Recipient) -> None:
    signed = sign(erik, [*FILES, "gone.pdf", "one.pdf"])
    assert signed["missing"] == ["gone.pdf"]
    assert time.time() + 44 * 60 < signed["expirationTime"] / 1000 <= time.time() + 3601
    assert [item["name"] for item in signed["items"]] == list(FILES)
    etags = {item["name"]: item["etag"] for page in list_files(erik) for item in page["items"]}
    for item in signed["items"]:
        answer = httpx.get(item["url"], headers={"If-Match": item["etag"]})
        assert (answer.status_code, answer.content) == (200, FILES[item["name"]])
        assert (item["size"], item["etag"]) == (len(answer.content), etags[item["name"]])


def test_a_file_that_changed_is_not_read_in_part(erik: Recipient, server: Server) -> None:
    key = {"Bucket": server.shelf.bucket, "Key": "vol1/read-forms/changing.txt"}
    s3 = server.client("s3")
    s3.put_object(**key, Body=b"before")
    [item] = sign(erik, ["changing.txt"], SKILL)["items"]
    s3.put_object(**key, Body=b"behind")
    assert httpx.get(item["url"], headers={"If-Match": item["etag"]}).status_code == 412
    s3.delete_object(**key)
    signed = sign(erik, ["changing.txt"], SKILL)
    assert (signed["items"], signed["missing"]) == ([], ["changing.txt"])


ESCAPES = ["../vol1x/secret", "a/../../vol2/secret", "/vol2/secret", "", ".", "..", "a//b", "a/./b", "a/", "x" * 1025,
           "a\tb", "a\n", "\x00", "\x7f"]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_out_of_the_folder_is_refused_by_its_place(erik: Recipient, path: str) -> None:
    erik.post(f"{VOLUME}/files", {"paths": ["one.pdf", path]}).refused(*INVALID, "paths[1] is not a valid file name")


def test_unreadable_and_invalid_paths_do_not_affect_other_files(erik: Recipient, server: Server) -> None:
    s3, bucket = server.client("s3"), server.shelf.bucket
    locked = {"Bucket": bucket, "Key": "vol1/read-forms/locked"}
    s3.put_object(**locked, Body=b"x")
    arn = f"arn:aws:s3:::{bucket}/{locked['Key']}"
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": arn}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
    try:
        signed = sign(erik, ["SKILL.md", "locked", "x" * 1020], SKILL)
        refused = erik.post(f"{SKILL}/files", {"paths": ["locked"]})
    finally:
        s3.delete_bucket_policy(Bucket=bucket)
        s3.delete_object(**locked)
    assert [each["name"] for each in signed["items"]] == ["SKILL.md"]
    assert signed["missing"] == ["locked", "x" * 1020]
    assert refused.status == 400


def test_a_page_token_becomes_invalid_when_the_folder_moves(erik: Recipient, server: Server) -> None:
    before, after = (f"s3://{server.shelf.bucket}/{folder}" for folder in ("vol1", "vol1x"))
    server.admin.volumes.create("assets", "others", "moved", before)
    path = f"{SCHEMA.replace('folders', 'others').replace('Folders', 'others')}/volumes/moved/files"
    try:
        token = erik.get(f"{path}?maxResults=1").json["nextPageToken"]
        server.admin.volumes.update("assets", "others", "moved", location=after)
        erik.get(f"{path}?pageToken={token}").refused(*INVALID, "invalid 'nextPageToken'")
    finally:
        server.admin.volumes.delete("assets", "others", "moved")


def test_a_path_with_an_encoded_traversal_is_read_as_a_name(erik: Recipient) -> None:
    signed = sign(erik, ["%2e%2e/vol1x/secret", "..%2fvol1x%2fsecret", "..\\vol1x\\secret"])
    assert (signed["items"], len(signed["missing"])) == ([], 3)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "MALFORMED_REQUEST"),
        (b"{", "MALFORMED_REQUEST"),
        (b'{"paths":"one.pdf"}', "MALFORMED_REQUEST"),
        (b'{"paths":[1]}', "MALFORMED_REQUEST"),
        (b"{}", "INVALID_PARAMETER_VALUE"),
        (json.dumps({"paths": [f"{number}" for number in range(1001)]}).encode(), "INVALID_PARAMETER_VALUE"),
        (b'{"paths":["\\ud800"]}', "MALFORMED_REQUEST"),
    ],
)
def test_a_request_without_paths_is_refused(erik: Recipient, body: bytes, code: str) -> None:
    erik.post(f"{VOLUME}/files", body).refused(400, code)


@pytest.mark.parametrize(
    "query",
    ["prefix=../", "prefix=/", "prefix=a//", "prefix=a/./b", "prefix=" + "x" * 1025, "delimiter=x", "maxResults=0",
     "maxResults=1001", "maxResults=x", "pageToken=x"],
)  # fmt: skip
def test_a_listing_of_another_kind_is_refused(erik: Recipient, query: str) -> None:
    erik.get(f"{VOLUME}/files?{query}").refused(*INVALID)


def test_a_page_token_is_valid_only_for_its_listing(erik: Recipient, server: Server) -> None:
    token = erik.get(f"{VOLUME}/files?maxResults=1").json["nextPageToken"]
    assert erik.get(f"{VOLUME}/files?maxResults=2&pageToken={token}").status == 200
    other_paths = [f"{VOLUME}/files?prefix=o&pageToken=", f"{VOLUME}/files?delimiter=/&pageToken=",
              f"{SCHEMA}/volumes/by-url/files?pageToken=", f"{VERSION}/files?pageToken="]  # fmt: skip
    for path in other_paths:
        erik.get(path + token).refused(*INVALID, "invalid 'nextPageToken'")
    server.admin.grants.create("carol", "assets")
    try:
        carol = server.recipient("carol")
        carol.get(f"{VOLUME}/files?pageToken={token}").refused(*INVALID, "invalid 'nextPageToken'")
    finally:
        server.admin.grants.revoke("carol", "assets")


def test_a_folder_with_only_directory_access_lists_and_signs_nothing(erik: Recipient) -> None:
    path = f"{SCHEMA}/volumes/by-dir/files"
    erik.get(path).refused(400, "UNSUPPORTED_OPERATION", "temporary volume credentials")
    erik.post(path, {"paths": ["one.pdf"]}).refused(400, "UNSUPPORTED_OPERATION")


def test_a_missing_bucket_asks_to_contact_the_provider(erik: Recipient) -> None:
    path = f"{SCHEMA.replace('Folders', 'Others')}/volumes/nowhere/files"
    reply = erik.get(path)
    reply.refused(400, "RESOURCE_DOES_NOT_EXIST", "provider")
    assert b"no-such-bucket" not in reply.body


def test_a_table_has_its_format(erik: Recipient, server: Server) -> None:
    table = server.table("table1")
    entry = table.recipient.get(table.path).json
    [listed_entry] = [
        item
        for item in table.recipient.get(f"/shares/{table.share}/all-tables").json["items"]
        if item["id"] == entry["id"]
    ]
    assert entry == {**listed_entry, "format": "delta"}
    erik.get(table.path).refused(404, "RESOURCE_DOES_NOT_EXIST")
