"""The small client of AWS gives what botocore's gives: signatures, answers, refusals, and one more attempt."""

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
    """A server that gives its answers in turn, the last one ever after, and keeps what it was asked."""

    answers: list[tuple[int, bytes, dict[str, str]]]
    asked: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    endpoint: str = ""

    def client(self, service: str = "dynamodb") -> AwsClient:
        return AwsClient(service, "eu-west-1", self.endpoint, timeouts=CATALOG, credentials=lambda: KEYS)


@contextmanager
def aws(*answers: tuple[int, bytes, dict[str, str]], keeps: bool = True) -> Iterator[Aws]:
    found = Aws(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keeps else "HTTP/1.0"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.asked.append(({name.lower(): value for name, value in self.headers.items()}, body))
            found.connections.add(self.client_address)
            status, content, headers = found.answers.pop(0) if len(found.answers) > 1 else found.answers[0]
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    with served(Handler) as found.endpoint:
        yield found


def refusal(code: str, status: int = 400, **more: Any) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps({"__type": f"com.amazonaws.dynamodb#{code}", "message": "no", **more}).encode(), {}


ITEM: tuple[int, bytes, dict[str, str]] = (200, b'{"Item":{"pk":{"S":"a"}}}', {})


@pytest.mark.parametrize("service", ["dynamodb", "sts"])
def test_a_request_is_signed_as_botocore_signs_it(service: str) -> None:
    answer = (200, ASSUMED, {}) if service == "sts" else ITEM
    with aws(answer) as there:
        client = there.client(service)
        if service == "sts":
            client.assume_role(RoleArn=ROLE, Tags=[{"Key": "recipient", "Value": "ü &=~"}], DurationSeconds=3600)
        else:
            client.get_item(TableName="t", Key={"pk": {"S": "ü"}})
        ((headers, body),) = there.asked
    theirs = AWSRequest("POST", there.endpoint + "/", data=body)
    signed = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    for name in signed:
        theirs.headers[name] = headers[name]
    auth = SigV4Auth(
        TheirCredentials(KEYS.access_key_id, KEYS.secret_access_key, KEYS.session_token), service, "eu-west-1"
    )
    theirs.context["timestamp"] = headers["x-amz-date"]
    expected = auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs)
    assert headers["authorization"].endswith(f"Signature={expected}")
    assert {"host", "x-amz-date", "x-amz-security-token", "content-type"} <= set(signed)


ASSUMED = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>a&amp;b</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>2026-11-22T10:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


def test_a_form_names_lists_as_the_query_protocol_does() -> None:
    with aws((200, ASSUMED, {})) as there:
        found = there.client("sts").assume_role(RoleArn=ROLE, Tags=[{"Key": "k", "Value": "v"}], DurationSeconds=900)
        form = dict(parse_qsl(there.asked[0][1].decode()))
    assert form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "Tags.member.1.Key": "k",
        "Tags.member.1.Value": "v",
        "DurationSeconds": "900",
    }
    keys = found["Credentials"]
    assert (keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]) == ("ASIA", "a&b", "t")
    assert keys["Expiration"].timestamp() == 1795341600


def test_the_embedded_aws_answers_both_clients_alike(embedded_aws: EmbeddedAws, aws_session: boto3.Session) -> None:
    theirs = aws_session.client("dynamodb", endpoint_url=embedded_aws.endpoint)
    schema: Any = {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}]}
    schema["KeySchema"] = [{"AttributeName": "pk", "KeyType": "HASH"}]
    theirs.create_table(TableName="both", BillingMode="PAY_PER_REQUEST", **schema)
    keys = aws_session.get_credentials()
    assert keys is not None
    ours = AwsClient(
        "dynamodb",
        aws_session.region_name,
        embedded_aws.endpoint,
        timeouts=CATALOG,
        credentials=lambda: Credentials(keys.access_key, keys.secret_key, keys.token or ""),
    )
    put: Any = {"Put": {"TableName": "both", "Item": {"pk": {"S": "ä"}, "n": {"N": "7"}}}}
    ours.transact_write_items(TransactItems=[put])
    asked: Any = {"TableName": "both", "Key": {"pk": {"S": "ä"}}, "ConsistentRead": True}
    expected = theirs.get_item(**asked)
    assert ours.get_item(**asked)["Item"] == expected["Item"]
    put["Put"]["ConditionExpression"] = "attribute_not_exists(pk)"
    put["Put"]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    failures = []
    for client in (ours, theirs):
        with pytest.raises(ClientError) as failed:
            client.transact_write_items(TransactItems=[put])
        failures.append(failed.value.response)
    mine, known = failures
    assert mine["Error"]["Code"] == known["Error"]["Code"] == "TransactionCanceledException"
    assert mine["CancellationReasons"] == known["CancellationReasons"]


@pytest.mark.parametrize(
    "passing",
    [
        refusal("ProvisionedThroughputExceededException"),
        refusal("InternalServerError", 500),
        (503, b"<html>", {}),
        (200, b'{"It', {"content-length": "99", "connection": "close"}),
    ],
    ids=["throttled", "failed", "no_service", "cut"],
)
def test_what_fails_in_passing_is_asked_once_more(passing: tuple[int, bytes, dict[str, str]]) -> None:
    with aws(passing, ITEM, keeps=passing[1] != b'{"It') as there:
        assert there.client().get_item(TableName="t", Key={}) == {"Item": {"pk": {"S": "a"}}}
        assert len(there.asked) == 2


def test_a_write_that_is_repeated_is_the_same_one() -> None:
    with aws(refusal("InternalServerError", 500), (200, b"{}", {})) as there:
        there.client().transact_write_items(TransactItems=[])
        first, second = [json.loads(body) for _, body in there.asked]
        there.client().transact_write_items(TransactItems=[])
        assert first["ClientRequestToken"] == second["ClientRequestToken"]
        assert json.loads(there.asked[2][1])["ClientRequestToken"] != first["ClientRequestToken"]


def test_a_refusal_is_botocores_and_asked_once() -> None:
    with aws(refusal("ConditionalCheckFailedException", Item={"pk": {"S": "a"}})) as there:
        with pytest.raises(ClientError) as failed:
            there.client().get_item(TableName="t", Key={})
        assert len(there.asked) == 1
    assert failed.value.response["Error"] == {"Code": "ConditionalCheckFailedException", "Message": "no"}
    assert failed.value.response["Item"] == {"pk": {"S": "a"}}  # type: ignore[typeddict-item]
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert failed.value.operation_name == "GetItem"


def test_a_refusal_in_xml_is_read() -> None:
    error = b"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no &lt;role&gt;</Message></Error>"
    body = b"<ErrorResponse>" + error + b"</ErrorResponse>"
    with aws((403, body, {})) as there, pytest.raises(ClientError) as failed:
        there.client("sts").assume_role(RoleArn=ROLE)
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
def test_half_an_answer_is_none(service: str, body: bytes, headers: dict[str, str]) -> None:
    with aws((200, body, headers)) as there:
        client = there.client(service)
        call = client.assume_role if service == "sts" else client.get_item
        with pytest.raises(ResponseParserError):
            call(RoleArn=ROLE)


def test_nobody_there_is_said() -> None:
    client = AwsClient("dynamodb", "x", f"http://127.0.0.1:{free_port()}", timeouts=CATALOG, credentials=lambda: KEYS)
    with pytest.raises(HTTPClientError):
        client.get_item(TableName="t", Key={})


def test_a_connection_is_kept_and_one_that_was_closed_is_left() -> None:
    with aws(ITEM) as there:
        client = there.client()
        for _ in range(3):
            client.get_item(TableName="t", Key={})
        assert len(there.connections) == 1
    with aws(ITEM, keeps=False) as there:
        client = there.client()
        for _ in range(3):
            client.get_item(TableName="t", Key={})
        assert len(there.connections) == len(there.asked) == 3


def test_threads_share_a_client() -> None:
    with aws(ITEM) as there:
        client = there.client()
        threads = [threading.Thread(target=lambda: client.get_item(TableName="t", Key={})) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert len(there.asked) == 8
        assert len(there.connections) <= 8


@pytest.mark.parametrize(
    ("service", "region", "host"),
    [
        ("dynamodb", "eu-west-1", "dynamodb.eu-west-1.amazonaws.com"),
        ("sts", "cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
        ("secretsmanager", "us-gov-west-1", "secretsmanager.us-gov-west-1.amazonaws.com"),
    ],
)
def test_endpoints_are_those_of_botocore(service: str, region: str, host: str) -> None:
    theirs = boto3.Session(region_name=region).client(service)  # type: ignore[call-overload]
    ours = AwsClient(service, region, timeouts=CATALOG, credentials=lambda: KEYS)
    assert f"https://{ours.host}" == theirs.meta.endpoint_url == f"https://{host}"


def test_what_no_function_asks_for_is_no_operation() -> None:
    client = AwsClient("sts", "x", timeouts=CATALOG, credentials=lambda: KEYS)
    with pytest.raises(AttributeError, match="get_caller_identity"):
        client.get_caller_identity()
