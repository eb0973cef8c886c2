"""Temporary table credentials: which recipients get them, for which folder, and which requests they allow."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
import deltalake
import pytest
from botocore.exceptions import ClientError
from contract.recipient import Recipient, Reply, Table
from contract.server import Server
from deltaic.catalog.admin.storage_admin import AccessKeys
from deltalake.exceptions import DeltaError

OTHER_BUCKET = "credentials-other"
OUTSIDE = "same as or under this table's configured storage"
NO_HISTORY = "Temporary table credentials are not supported because history sharing is not enabled on table: "
STATIC = AccessKeys("AKIASTATIC", "static-keys-secret")
ODD = 'odd +%20"}],\u00e9'


def ask(table: Table, body: Any = None) -> Reply:
    """POST .../temporary-table-credentials."""
    return table.recipient.post(f"{table.path}/temporary-table-credentials", {} if body is None else body)


@dataclass(frozen=True)
class Vended:
    """Credentials as a recipient got them, and what they are tried on."""

    answer: dict[str, Any]
    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """Return the storage options of `deltalake` for these credentials."""
        keys = self.answer["awsTempCredentials"]
        return {
            "AWS_ACCESS_KEY_ID": keys["accessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["secretAccessKey"],
            "AWS_SESSION_TOKEN": keys["sessionToken"],
            "AWS_ENDPOINT_URL": self.answer["endpoint"],
            "AWS_REGION": self.answer["region"],
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def s3(self) -> Any:
        return self.client("s3")

    def client(self, service: Any) -> Any:
        keys = self.answer["awsTempCredentials"]
        session = boto3.Session(
            keys["accessKeyId"], keys["secretAccessKey"], keys["sessionToken"], region_name="us-east-1"
        )
        return session.client(service, endpoint_url=self.endpoint)

    def names(self, bucket: str, prefix: str) -> list[str]:
        return [each["Key"] for each in self.s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])]


Vend = Callable[..., Vended]


@pytest.fixture(scope="module")
def dora(server: Server) -> Recipient:
    """Return a recipient of the share `folders`, whose tables are shared in every way that matters here."""
    admin, bucket = server.admin, server.shelf.bucket
    endpoint, role = server.environment["AWS_ENDPOINT_URL"], server.environment["SIGNING_ROLE_ARN"]
    admin.storages.create("static", endpoint=endpoint, path_style=True, access_keys=STATIC)
    at_aws = "https://s3.eu-west-1.amazonaws.com"
    admin.storages.create("regional", region="eu-west-1", endpoint=endpoint, public_endpoint=at_aws, role_arn=role)
    admin.storages.create("roled", endpoint=endpoint, path_style=True, access_keys=STATIC, role_arn=role)
    root = f"s3://{bucket}/table1"
    settings = {"history": True, "access_modes": ("dir",)}
    tables: dict[str, tuple[str, dict[str, Any]]] = {
        "table1": (root, {"history": True, "access_modes": ("url", "dir")}),
        "with_another_scheme": (root.replace("s3:", "s3a:"), settings),
        "with_an_auxiliary": (root, {**settings, "auxiliary_locations": (f"s3://{OTHER_BUCKET}/clone",)}),
        "with_an_odd_name": (f"s3://{bucket}/{ODD}", settings),
        "with_a_wildcard": (f"s3://{bucket}/t*", settings),
        "with_a_long_name": (f"s3://{bucket}/{'x' * 1000}", settings),
        "by_url": (root, {"history": True}),
        "without_history": (root, {"access_modes": ("dir",)}),
        "with_late_history": (root, {**settings, "start_version": 1}),
        "with_static_keys": (root, {**settings, "storage": "static"}),
        "with_keys_and_a_role": (root, {**settings, "storage": "roled"}),
        "in_a_region_of_aws": (root, {**settings, "storage": "regional"}),
    }
    admin.shares.create("folders")
    admin.schemas.create("folders", "default")
    for name, (location, options) in tables.items():
        admin.tables.create("folders", "default", name, location, **options)
    account = admin.recipients.create("dora")
    admin.grants.create("dora", "folders")
    s3 = server.client("s3")
    s3.create_bucket(Bucket=OTHER_BUCKET)
    for path, key in (
        (bucket, "table1x/_delta_log/00000000000000000000.json"),
        (bucket, f"{ODD}/part"),
        (OTHER_BUCKET, "clone/part"),
        (OTHER_BUCKET, "table1/part"),
    ):
        s3.put_object(Bucket=path, Key=key, Body=b"rows")
    return Recipient(server.stack.endpoint, server.admin.tokens.create(account).secret)


@pytest.fixture
def folder(dora: Recipient) -> Callable[[str], Table]:
    return lambda name: Table(dora, "folders", "default", name)


@pytest.fixture
def vend(server: Server, folder: Callable[[str], Table]) -> Vend:
    """Return a function that asks for credentials, as a client that reads with them."""

    def get(name: str = "table1", location: str | None = None) -> Vended:
        reply = ask(folder(name), {} if location is None else {"location": location})
        assert reply.status == 200, reply.body
        return Vended(reply.json["credentials"], server.environment["AWS_ENDPOINT_URL"])

    return get


@pytest.fixture
def root(server: Server) -> str:
    return f"s3://{server.shelf.bucket}/table1"


def denied(attempt: Callable[[], object]) -> None:
    with pytest.raises(ClientError) as caught:
        attempt()
    assert caught.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}


@pytest.mark.parametrize("body", [b"{}", b"", b'{"location":null}', b'{"location":"","other":1}'])
def test_the_response_has_credentials_of_one_cloud_for_the_root(
    folder: Callable[[str], Table], root: str, body: bytes
) -> None:
    before = time.time()
    reply = ask(folder("table1"), body)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert list(reply.json) == ["credentials"]
    answer = reply.json["credentials"]
    assert set(answer) == {"location", "awsTempCredentials", "expirationTime", "region", "endpoint"}
    assert answer["location"] == root
    assert set(answer["awsTempCredentials"]) == {"accessKeyId", "secretAccessKey", "sessionToken"}
    assert all(answer["awsTempCredentials"].values())
    # A role assumed from a role lives an hour; Spark takes an expiry within 15 minutes for one in an hour.
    assert before + 44 * 60 < answer["expirationTime"] / 1000 <= time.time() + 3601


def test_credentials_include_the_endpoint_and_region_of_the_store(server: Server, vend: Vend) -> None:
    # Of AWS the region alone: where that answers, every library knows.
    response = vend("in_a_region_of_aws").answer
    assert (response["region"], "endpoint" in response) == ("eu-west-1", False)
    response = vend().answer
    assert (response["region"], response["endpoint"]) == ("us-east-1", server.environment["AWS_ENDPOINT_URL"])


def test_a_request_needs_neither_body_nor_content_type(folder: Callable[[str], Table], root: str) -> None:
    table = folder("table1")
    reply = table.recipient.ask("POST", f"{table.path}/temporary-table-credentials")
    assert reply.json["credentials"]["location"] == root


@pytest.mark.parametrize(
    ("name", "requested", "answered"),
    [
        pytest.param("with_another_scheme", None, "", id="root_of_an_s3a_table"),
        pytest.param("with_another_scheme", "s3://{bucket}/table1", "", id="s3_for_s3a"),
        pytest.param("table1", "s3a://{bucket}/table1/", "", id="s3a_for_s3"),
        pytest.param("table1", "s3://{bucket}//x/../table1/.", "", id="dots"),
        pytest.param("table1", "s3://{bucket}/table1/_delta_log", "/_delta_log", id="log"),
    ],
)
def test_a_location_of_the_table_is_accepted(  # noqa: PLR0917 -- three fixtures, one case
    server: Server, vend: Vend, root: str, name: str, requested: str | None, answered: str
) -> None:
    location = requested.format(bucket=server.shelf.bucket) if requested else None
    assert vend(name, location).answer["location"] == root + answered


@pytest.mark.parametrize(
    "requested",
    [
        pytest.param("s3://some-other-bucket/table1", id="another_bucket"),
        pytest.param("s3://{bucket}/table1x", id="sibling_that_begins_alike"),
        pytest.param("s3://{bucket}/table1/../table2", id="dots_to_a_sibling"),
        pytest.param("s3://{bucket}/table1/../../../table1", id="dots_out_of_the_bucket"),
        pytest.param("s3://{bucket}", id="bucket"),
        pytest.param("s3://{bucket}/table*", id="wildcard"),
        pytest.param("gs://{bucket}/table1", id="another_cloud"),
        pytest.param("file:///etc", id="file"),
        pytest.param("table1", id="no_uri"),
        pytest.param("s3://%%%\u0000", id="garbage"),
    ],
)
def test_another_location_is_refused(server: Server, folder: Callable[[str], Table], requested: str) -> None:
    reply = ask(folder("table1"), {"location": requested.format(bucket=server.shelf.bucket)})
    reply.refused(400, "INVALID_PARAMETER_VALUE", OUTSIDE)


@pytest.mark.parametrize("body", [b"{", b"[]", b'"s3://b"', b'{"location":1}', b"\xff"])
def test_an_invalid_body_is_refused(folder: Callable[[str], Table], body: bytes) -> None:
    ask(folder("table1"), body).refused(400, "MALFORMED_REQUEST")


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        pytest.param("by_url", "UNSUPPORTED_OPERATION", "shared by pre-signed URLs only", id="url_only"),
        pytest.param("without_history", "INVALID_PARAMETER_VALUE", NO_HISTORY, id="no_history"),
        pytest.param("with_late_history", "INVALID_PARAMETER_VALUE", "only since version 1", id="part_of_the_history"),
        pytest.param("with_static_keys", "UNSUPPORTED_OPERATION", "needs a role", id="static_keys"),
        pytest.param("with_a_long_name", "UNSUPPORTED_OPERATION", "path is too long", id="path_too_long"),
    ],
)
def test_a_table_without_directory_access_is_refused(
    folder: Callable[[str], Table], name: str, code: str, text: str
) -> None:
    reply = ask(folder(name))
    reply.refused(400, code, text)
    assert STATIC.secret_access_key.encode() not in reply.body


def test_static_keys_are_not_returned_if_a_role_can_be_restricted(vend: Vend, server: Server) -> None:
    vended = vend("with_keys_and_a_role")
    assert STATIC.access_key_id not in json.dumps(vended.answer)
    assert len(vended.names(server.shelf.bucket, "table1/_delta_log/")) == 3
    denied(lambda: vended.names(server.shelf.bucket, "table1x/"))


def test_the_delta_library_reads_the_table_with_them(server: Server, vend: Vend) -> None:
    vended = vend()
    read = deltalake.DeltaTable(vended.answer["location"], storage_options=vended.options)
    expected = server.shelf.written["table1"]
    assert read.version() == expected.version()
    assert read.to_pyarrow_table().sort_by("eventTime") == expected.to_pyarrow_table().sort_by("eventTime")
    assert read.to_pyarrow_table().num_rows == 2
    read.load_as_version(1)
    assert read.to_pyarrow_table().num_rows == 1


def test_the_delta_library_cannot_write_with_them(server: Server, vend: Vend) -> None:
    vended = vend()
    rows = server.shelf.written["table1"].to_pyarrow_table()
    with pytest.raises(DeltaError, match=r"s3:PutObject"):
        deltalake.write_deltalake(
            vended.answer["location"],
            rows,
            mode="append",
            storage_options=vended.options | {"aws_conditional_put": "etag"},
        )
    assert deltalake.DeltaTable(vended.answer["location"], storage_options=vended.options).version() == 2


def test_credentials_of_a_table_can_only_read_and_list_its_folder(server: Server, vend: Vend) -> None:
    bucket, vended = server.shelf.bucket, vend()
    s3, log = vended.s3, "table1/_delta_log/00000000000000000000.json"
    assert vended.names(bucket, "table1/_delta_log/")[0] == log
    assert s3.get_object(Bucket=bucket, Key=log)["Body"].read().startswith(b"{")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: s3.get_object(Bucket=bucket, Key="table1x/_delta_log/00000000000000000000.json"),
        lambda: s3.get_object(Bucket=bucket, Key="table2/_delta_log/00000000000000000000.json"),
        lambda: s3.get_object(Bucket=OTHER_BUCKET, Key="table1/part"),
        lambda: s3.list_objects_v2(Bucket=bucket),
        lambda: s3.list_objects_v2(Bucket=bucket, Prefix="table1"),
        lambda: s3.list_objects_v2(Bucket=bucket, Prefix="table1x/"),
        lambda: s3.list_objects_v2(Bucket=bucket, Delimiter="/"),
        lambda: s3.list_objects_v2(Bucket=OTHER_BUCKET, Prefix="table1/"),
        lambda: s3.put_object(Bucket=bucket, Key="table1/new", Body=b""),
        lambda: s3.delete_object(Bucket=bucket, Key=log),
        lambda: vended.client("dynamodb").scan(TableName=server.environment["CATALOG_TABLE"]),
        lambda: vended.client("sts").assume_role(
            RoleArn=server.environment["SIGNING_ROLE_ARN"],
            RoleSessionName="again",
            Tags=[{"Key": "recipient", "Value": "again"}],
        ),
    )
    for attempt in attempts:
        denied(attempt)


def test_credentials_of_the_log_can_only_read_the_log(server: Server, vend: Vend, root: str) -> None:
    bucket, vended = server.shelf.bucket, vend("table1", f"{root}/_delta_log")
    assert len(vended.names(bucket, "table1/_delta_log/")) == 3
    data = server.shelf.written["table1"].file_uris()[0].removeprefix(f"s3://{bucket}/")
    denied(lambda: vended.s3.get_object(Bucket=bucket, Key=data))
    assert vend().s3.get_object(Bucket=bucket, Key=data)["ContentLength"] > 0


def test_each_auxiliary_location_has_separate_credentials(server: Server, vend: Vend, root: str) -> None:
    location = f"s3://{OTHER_BUCKET}/clone"
    vended = vend("with_an_auxiliary", location)
    assert vended.answer["location"] == location
    assert vended.names(OTHER_BUCKET, "clone/") == ["clone/part"]
    denied(lambda: vended.names(OTHER_BUCKET, "table1/"))
    denied(lambda: vended.names(server.shelf.bucket, "table1/"))
    assert vend("with_an_auxiliary").answer["location"] == root
    denied(lambda: vend("with_an_auxiliary").names(OTHER_BUCKET, "clone/"))


def test_a_folder_name_can_contain_any_character(server: Server, vend: Vend) -> None:
    bucket, vended = server.shelf.bucket, vend("with_an_odd_name")
    assert vended.answer["location"] == f"s3://{bucket}/{ODD}"
    assert vended.s3.get_object(Bucket=bucket, Key=f"{ODD}/part")["Body"].read() == b"rows"
    assert vended.names(bucket, f"{ODD}/") == [f"{ODD}/part"]


def test_a_wildcard_in_a_folders_name_opens_no_other_folder(server: Server, vend: Vend) -> None:
    # That it opens its own is IAM's part ("${*}"), which the embedded AWS does not play.
    bucket, vended = server.shelf.bucket, vend("with_a_wildcard")
    assert vended.answer["location"] == f"s3://{bucket}/t*"
    denied(lambda: vended.s3.get_object(Bucket=bucket, Key="table1/_delta_log/00000000000000000000.json"))
    denied(lambda: vended.names(bucket, "table1/_delta_log/"))


def test_credentials_have_the_recipients_session(server: Server, vend: Vend) -> None:
    identity = vend().client("sts").get_caller_identity()
    role = server.environment["SIGNING_ROLE_ARN"].rpartition("/")[2]
    assert identity["Arn"].endswith(f"assumed-role/{role}/{server.admin.recipients.get('dora').id}")


def test_a_table_with_only_directory_access_refuses_queries(folder: Callable[[str], Table]) -> None:
    folder("with_another_scheme").query().refused(400, "UNSUPPORTED_OPERATION", "temporary table credentials")
