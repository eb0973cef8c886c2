"""The parts extract keys, table and secret of a request for LocalEmu."""

from typing import Any

import pytest

from emulators.parts.rights import leading_keys, partition_key, secret_arn, tables_of

KEY = {"pk": {"S": "shares"}, "sk": {"S": "share/a"}}
OTHER_KEY = {"pk": {"S": "recipient/r"}, "sk": {"S": "grant/a"}}


@pytest.mark.parametrize(
    ("parameters", "keys"),
    [
        pytest.param({"TableName": "t", "Key": KEY}, ["shares"], id="get, update, delete"),
        pytest.param({"TableName": "t", "Item": {**KEY, "name": {"S": "x"}}}, ["shares"], id="put"),
        pytest.param(
            {
                "TableName": "t",
                "KeyConditionExpression": "pk = :p AND begins_with(sk, :s)",
                "ExpressionAttributeValues": {":p": {"S": "share/1"}, ":s": {"S": "table/"}},
            },
            ["share/1"],
            id="query",
        ),
        pytest.param(
            {
                "TableName": "t",
                "KeyConditionExpression": "#s = :s AND #p=:p",
                "ExpressionAttributeNames": {"#p": "pk", "#s": "sk"},
                "ExpressionAttributeValues": {":p": {"S": "share/1"}, ":s": {"S": "table/a"}},
            },
            ["share/1"],
            id="query with names, the sort key first",
        ),
        pytest.param({"RequestItems": {"t": {"Keys": [KEY, OTHER_KEY]}}}, ["shares", "recipient/r"], id="batch get"),
        pytest.param(
            {"RequestItems": {"t": [{"PutRequest": {"Item": KEY}}, {"DeleteRequest": {"Key": OTHER_KEY}}]}},
            ["shares", "recipient/r"],
            id="batch write",
        ),
        pytest.param(
            {
                "TransactItems": [
                    {"Put": {"TableName": "t", "Item": KEY}},
                    {"ConditionCheck": {"TableName": "t", "Key": OTHER_KEY}},
                ]
            },
            ["shares", "recipient/r"],
            id="transaction",
        ),
        pytest.param({"TableName": "t"}, [], id="scan"),
    ],
)
def test_the_keys_of_a_request_are_extracted(parameters: dict[str, Any], keys: list[str]) -> None:
    assert list(leading_keys(parameters, lambda _: "pk")) == keys
    assert set(tables_of(parameters)) == {"t"}


def test_keys_with_other_names_are_taken_from_the_table() -> None:
    parameters = {"TableName": "t", "Key": {"hash": {"S": "a"}, "pk": {"S": "b"}}}
    assert list(leading_keys(parameters, lambda _: "hash")) == ["a"]


class Exceptions:
    """Exceptions as botocore's clients have them."""

    class ResourceNotFoundException(Exception):
        """There is none of that name."""


class Client:
    """Clients of the emulator that know one table and one secret."""

    exceptions = Exceptions

    def describe_table(self, **parameters: str) -> dict[str, Any]:
        if parameters["TableName"] != "t":
            raise Exceptions.ResourceNotFoundException
        schema = [{"AttributeName": "sk", "KeyType": "RANGE"}, {"AttributeName": "pk", "KeyType": "HASH"}]
        return {"Table": {"KeySchema": schema}}

    def describe_secret(self, **parameters: str) -> dict[str, Any]:
        if parameters["SecretId"] != "key":
            raise Exceptions.ResourceNotFoundException
        return {"ARN": "arn:aws:secretsmanager:us-east-1:000000000000:secret:key-a1B2c3"}


def test_arns_of_tables_and_secrets_are_resolved_if_they_exist() -> None:
    client = Client()
    assert (partition_key(client, "t"), partition_key(client, "no")) == ("pk", "")
    assert secret_arn(client, "key").endswith(":secret:key-a1B2c3")
    assert secret_arn(client, "no") == "no"
