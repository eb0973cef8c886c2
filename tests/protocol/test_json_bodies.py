"""Test the JSON bodies of listings, shares and errors."""

import json
from typing import Any

from deltaic import errors
from deltaic.protocol import json_bodies
from hypothesis import given
from hypothesis import strategies as st


def test_a_page_of_shares_equals_the_protocols_example() -> None:
    shares = [
        json_bodies.present(name="vaccine_share", id="edacc4a7-6600-4fbb-85f3-a62a5ce6761f"),
        json_bodies.present(name="sales_share", id="3e979c79-6399-4dac-bcf8-54e268f48515"),
    ]
    assert json_bodies.listing([*map(json_bodies.encode, shares)], "...") == (
        b'{"items":[{"name":"vaccine_share","id":"edacc4a7-6600-4fbb-85f3-a62a5ce6761f"},'
        b'{"name":"sales_share","id":"3e979c79-6399-4dac-bcf8-54e268f48515"}],"nextPageToken":"..."}'
    )


def test_the_last_page_has_no_token_and_an_empty_page_no_items() -> None:
    assert json_bodies.listing([], None) == b'{"items":[]}'
    assert json_bodies.listing([], "t") == b'{"items":[],"nextPageToken":"t"}'


def test_table_credentials_are_on_one_line() -> None:
    credentials: dict[str, Any] = {
        "access_key_id": "ASIA",
        "secret_access_key": "s",
        "session_token": "t",
        "expires_at_ms": 1_700_000,
        "region": "eu-west-1",
    }
    body = {"location": "s3://bucket/t\u00e4ble", **json_bodies.aws_credentials(**credentials)}
    assert json_bodies.encode({"credentials": body}) == (
        b'{"credentials":{"location":"s3://bucket/t\\u00e4ble","awsTempCredentials":'
        b'{"accessKeyId":"ASIA","secretAccessKey":"s","sessionToken":"t"},"expirationTime":1700000,'
        b'"region":"eu-west-1"}}'
    )
    assert json_bodies.aws_credentials(**credentials, endpoint="http://minio:9000")["endpoint"] == "http://minio:9000"


def test_absent_fields_and_empty_texts_are_omitted() -> None:
    assert json_bodies.present(name="s", id="", display_name=None, size=0) == {"name": "s", "size": 0}


def test_errors() -> None:
    assert json_bodies.error(errors.NotFound("share 'n\u00f6pe' not found")) == (
        b'{"errorCode":"RESOURCE_DOES_NOT_EXIST","message":"share \'n\\u00f6pe\' not found"}'
    )
    assert json_bodies.error(errors.DeltaicError("")) == b'{"errorCode":"INTERNAL_ERROR","message":""}'


@given(st.text(), st.text(min_size=1))
def test_every_body_is_one_line_of_ascii(message: str, name: str) -> None:
    for body in (
        json_bodies.error(errors.InvalidParameter(message)),
        json_bodies.listing([json_bodies.encode(json_bodies.present(name=name, comment=message))], message),
    ):
        text = body.decode("ascii")
        assert text.splitlines() == [text]
    assert json.loads(body)["items"][0]["name"] == name
