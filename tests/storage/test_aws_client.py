"""AwsClient behaves like botocore: signatures, answers, errors and one retry."""

import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as TheirCredentials
from botocore.exceptions import ClientError, HTTPClientError
from botocore.parsers import ResponseParserError
from deltaic.storage.aws_client import CATALOG, AwsClient
from deltaic.storage.aws_credentials import Credentials
from deltaic_ops.local.embedded import EmbeddedAws, free_port
from served import served

KEYS = Credentials("AKIDEXAMPLE", "secret/+", "token==")
ROLE = "arn:aws:iam::000000000000:role/reader"


@dataclass
class Aws:
    """Server that returns its answers in turn, repeats the last one, and records the requests."""

    answers: list[tuple[int, bytes, dict[str, str]]]
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    endpoint: str = ""

    def client(self, service: str = "dynamodb") -> AwsClient:
        return AwsClient(service, "eu-west-1", self.endpoint, timeouts=CATALOG, credentials=lambda: KEYS)


@contextmanager
def aws(*answers: tuple[int, bytes, dict[str, str]], keeps: bool = True) -> Iterator[Aws]:
    server = Aws(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keeps else "HTTP/1.0"

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            server.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            server.connections.add(self.client_address)
            status, content, headers = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    with served(Handler) as server.endpoint:
        yield server


def refusal(code: str, status: int = 400, **fields: Any) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps({"__type": f"com.amazonaws.dynamodb#{code}", "message": "no", **fields}).encode(), {}


ITEM: tuple[int, bytes, dict[str, str]] = (200, b'{"Item":{"pk":{"S":"a"}}}', {})


@pytest.mark.parametrize("service", ["dynamodb", "sts", "s3tables"])
def test_a_request_is_signed_as_botocore_signs_it(service: str) -> None:
    answer = (200, ASSUMED, {}) if service == "sts" else ITEM
    with aws(answer) as server:
        client = server.client(service)
        if service == "sts":
            client.assume_role(RoleArn=ROLE, Tags=[{"Key": "recipient", "Value": "ü &=~"}], DurationSeconds=3600)
        elif service == "s3tables":
            client.get_table_metadata_location(tableBucketARN="arn:aws:s3tables:x:1:bucket/b", namespace="n", name="t")
        else:
            client.get_item(TableName="t", Key={"pk": {"S": "ü"}})
        ((headers, body),) = server.requests
    path = "/tables/arn%3Aaws%3As3tables%3Ax%3A1%3Abucket%2Fb/n/t/metadata-location" if service == "s3tables" else "/"
    expected_request = AWSRequest("GET" if service == "s3tables" else "POST", server.endpoint + path, data=body)
    signed = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    for name in signed:
        expected_request.headers[name] = headers[name]
    auth = SigV4Auth(
        TheirCredentials(KEYS.access_key_id, KEYS.secret_access_key, KEYS.session_token), service, "eu-west-1"
    )
    expected_request.context["timestamp"] = headers["x-amz-date"]
    expected = auth.signature(
        auth.string_to_sign(expected_request, auth.canonical_request(expected_request)), expected_request
    )
    assert headers["authorization"].endswith(f"Signature={expected}")
    content_type = set() if service == "s3tables" else {"content-type"}
    assert {"host", "x-amz-date", "x-amz-security-token"} | content_type <= set(signed)


ASSUMED = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>a&amp;b</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>2026-11-22T10:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


def test_a_form_names_lists_as_the_query_protocol_does() -> None:
    with aws((200, ASSUMED, {})) as server:
        answer = server.client("sts").assume_role(RoleArn=ROLE, Tags=[{"Key": "k", "Value": "v"}], DurationSeconds=900)
        form = dict(parse_qsl(server.requests[0][1].decode()))
    assert form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "Tags.member.1.Key": "k",
        "Tags.member.1.Value": "v",
        "DurationSeconds": "900",
    }
    keys = answer["Credentials"]
    assert (keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]) == ("ASIA", "a&b", "t")
    assert keys["Expiration"].timestamp() == 1795341600


def test_embedded_aws_answers_both_clients_equally(embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> None:
    botocore_client = aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)
    schema: Any = {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}]}
    schema["KeySchema"] = [{"AttributeName": "pk", "KeyType": "HASH"}]
    botocore_client.create_table(TableName="both", BillingMode="PAY_PER_REQUEST", **schema)
    keys = aws_session.get_credentials()
    assert keys is not None
    own_client = AwsClient(
        "dynamodb",
        aws_session.region_name,
        embedded_aws.endpoint,
        timeouts=CATALOG,
        credentials=lambda: Credentials(keys.access_key, keys.secret_key, keys.token or ""),
    )
    put: Any = {"Put": {"TableName": "both", "Item": {"pk": {"S": "ä"}, "n": {"N": "7"}}}}
    own_client.transact_write_items(TransactItems=[put])
    request: Any = {"TableName": "both", "Key": {"pk": {"S": "ä"}}, "ConsistentRead": True}
    expected = botocore_client.get_item(**request)
    assert own_client.get_item(**request)["Item"] == expected["Item"]
    put["Put"]["ConditionExpression"] = "attribute_not_exists(pk)"
    put["Put"]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    failures = []
    for client in (own_client, botocore_client):
        with pytest.raises(ClientError) as failed:
            client.transact_write_items(TransactItems=[put])
        failures.append(failed.value.response)
    own_error, botocore_error = failures
    assert own_error["Error"]["Code"] == botocore_error["Error"]["Code"] == "TransactionCanceledException"
    assert own_error["CancellationReasons"] == botocore_error["CancellationReasons"]


@pytest.mark.parametrize(
    "failure",
    [
        refusal("ProvisionedThroughputExceededException"),
        refusal("InternalServerError", 500),
        (503, b"<html>", {}),
        (200, b'{"It', {"content-length": "99", "connection": "close"}),
    ],
    ids=["throttled", "failed", "no_service", "cut"],
)
def test_transient_error_is_retried_once(failure: tuple[int, bytes, dict[str, str]]) -> None:
    with aws(failure, ITEM, keeps=failure[1] != b'{"It') as server:
        assert server.client().get_item(TableName="t", Key={}) == {"Item": {"pk": {"S": "a"}}}
        assert len(server.requests) == 2


def test_retried_write_has_the_same_token() -> None:
    with aws(refusal("InternalServerError", 500), (200, b"{}", {})) as server:
        server.client().transact_write_items(TransactItems=[])
        first, second = [json.loads(body) for _, body in server.requests]
        server.client().transact_write_items(TransactItems=[])
        assert first["ClientRequestToken"] == second["ClientRequestToken"]
        assert json.loads(server.requests[2][1])["ClientRequestToken"] != first["ClientRequestToken"]


def test_permanent_error_is_not_retried() -> None:
    with aws(refusal("ConditionalCheckFailedException", Item={"pk": {"S": "a"}})) as server:
        with pytest.raises(ClientError) as failed:
            server.client().get_item(TableName="t", Key={})
        assert len(server.requests) == 1
    assert failed.value.response["Error"] == {"Code": "ConditionalCheckFailedException", "Message": "no"}
    assert failed.value.response["Item"] == {"pk": {"S": "a"}}  # type: ignore[typeddict-item]
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert failed.value.operation_name == "GetItem"


def test_error_in_xml_is_parsed() -> None:
    error = b"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no &lt;role&gt;</Message></Error>"
    body = b"<ErrorResponse>" + error + b"</ErrorResponse>"
    with aws((403, body, {})) as server, pytest.raises(ClientError) as failed:
        server.client("sts").assume_role(RoleArn=ROLE)
    assert failed.value.response["Error"] == {"Code": "AccessDenied", "Message": "no <role>"}


@pytest.mark.parametrize(
    ("service", "body", "headers"),
    [
        ("dynamodb", b"", {}),
        ("dynamodb", b"[]", {}),
        ("dynamodb", b'{"Item":', {}),
        ("dynamodb", b"{}", {"x-amz-crc32": str(zlib.crc32(b'{"Item":{}}'))}),
        ("sts", b"<Assume", {}),
        ("sts", b"<a><AccessKeyId>x</AccessKeyId></a>", {}),
        ("sts", b"<html></html>", {}),
    ],
)
def test_incomplete_answer_is_an_error(service: str, body: bytes, headers: dict[str, str]) -> None:
    with aws((200, body, headers)) as server:
        client = server.client(service)
        call = client.assume_role if service == "sts" else client.get_item
        with pytest.raises(ResponseParserError):
            call(RoleArn=ROLE)


def test_missing_server_is_an_error() -> None:
    client = AwsClient("dynamodb", "x", f"http://127.0.0.1:{free_port()}", timeouts=CATALOG, credentials=lambda: KEYS)
    with pytest.raises(HTTPClientError):
        client.get_item(TableName="t", Key={})


def test_open_connections_are_reused() -> None:
    with aws(ITEM) as server:
        client = server.client()
        for _ in range(3):
            client.get_item(TableName="t", Key={})
        assert len(server.connections) == 1
    with aws(ITEM, keeps=False) as server:
        client = server.client()
        for _ in range(3):
            client.get_item(TableName="t", Key={})
        assert len(server.connections) == len(server.requests) == 3


def test_threads_share_a_client() -> None:
    with aws(ITEM) as server:
        client = server.client()
        threads = [threading.Thread(target=lambda: client.get_item(TableName="t", Key={})) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.requests) == 8
        assert len(server.connections) <= 8


@pytest.mark.parametrize(
    ("service", "region", "host"),
    [
        ("dynamodb", "eu-west-1", "dynamodb.eu-west-1.amazonaws.com"),
        ("sts", "cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
        ("s3tables", "eu-west-1", "s3tables.eu-west-1.amazonaws.com"),
        ("secretsmanager", "us-gov-west-1", "secretsmanager.us-gov-west-1.amazonaws.com"),
    ],
)
def test_endpoints_are_those_of_botocore(service: str, region: str, host: str) -> None:
    botocore_client = boto3.Session(region_name=region).client(service)  # type: ignore[call-overload]
    own_client = AwsClient(service, region, timeouts=CATALOG, credentials=lambda: KEYS)
    assert f"https://{own_client.host}" == botocore_client.meta.endpoint_url == f"https://{host}"


def test_unknown_operation_is_an_attribute_error() -> None:
    client = AwsClient("sts", "x", timeouts=CATALOG, credentials=lambda: KEYS)
    with pytest.raises(AttributeError, match="get_caller_identity"):
        client.get_caller_identity()
