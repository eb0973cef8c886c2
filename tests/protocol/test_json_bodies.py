"""Proves the JSON bodies of listings, shares and errors."""

import json
from typing import Any

from deltaic import errors
from deltaic.protocol import json_bodies
from hypothesis import given
from hypothesis import strategies as st


def test_a_page_of_shares_is_the_documents_example_on_one_line() -> None:
    shares = [
        json_bodies.share_object("vaccine_share", id="edacc4a7-6600-4fbb-85f3-a62a5ce6761f"),
        json_bodies.share_object("sales_share", id="3e979c79-6399-4dac-bcf8-54e268f48515"),
    ]
    assert json_bodies.listing([*map(json_bodies.encode, shares)], "...") == (
        b'{"items":[{"name":"vaccine_share","id":"edacc4a7-6600-4fbb-85f3-a62a5ce6761f"},'
        b'{"name":"sales_share","id":"3e979c79-6399-4dac-bcf8-54e268f48515"}],"nextPageToken":"..."}'
    )


def test_the_last_page_has_no_token_and_an_empty_one_no_items() -> None:
    assert json_bodies.listing([], None) == b'{"items":[]}'
    assert json_bodies.listing([], "t") == b'{"items":[],"nextPageToken":"t"}'


def test_table_credentials_are_those_of_one_cloud_on_one_line() -> None:
    known: dict[str, Any] = {
        "access_key_id": "ASIA",
        "secret_access_key": "s",
        "session_token": "t",
        "expires_at_ms": 1_700_000,
        "region": "eu-west-1",
    }
    body = json_bodies.table_credentials("s3://bucket/t\u00e4ble", **known)
    assert body == (
        b'{"credentials":{"location":"s3://bucket/t\\u00e4ble","awsTempCredentials":'
        b'{"accessKeyId":"ASIA","secretAccessKey":"s","sessionToken":"t"},"expirationTime":1700000,'
        b'"region":"eu-west-1"}}'
    )
    body = json_bodies.table_credentials("s3://bucket/t", **known, endpoint="http://minio:9000")
    assert json.loads(body)["credentials"]["endpoint"] == "http://minio:9000"


def test_a_share_with_all_its_fields() -> None:
    share = json_bodies.share_object(
        "vaccine_share",
        id="edacc4a7-6600-4fbb-85f3-a62a5ce6761f",
        display_name="Vaccine Share",
        comment="d\u00e9mo\u2028",
        properties={"owner": "vaccine-team"},
    )
    assert json_bodies.encode({"share": share}) == (
        b'{"share":{"name":"vaccine_share","id":"edacc4a7-6600-4fbb-85f3-a62a5ce6761f","displayName":"Vaccine Share",'
        b'"comment":"d\\u00e9mo\\u2028","properties":{"owner":"vaccine-team"}}}'
    )


def test_absent_fields_are_left_out() -> None:
    assert json_bodies.share_object("s", id="", display_name=None, comment="", properties={}) == {"name": "s"}
    assert json_bodies.table_object("t", "d", "s", share_id=None, id="") == {"name": "t", "schema": "d", "share": "s"}
    assert json_bodies.schema_object("d", "s") == {"name": "d", "share": "s"}


def test_a_table_is_the_documents_example() -> None:
    table = json_bodies.table_object(
        "vaccine_patients",
        "acme_vaccine_data",
        "vaccine_share",
        share_id="edacc4a7-6600-4fbb-85f3-a62a5ce6761f",
        id="c48f3e19-2c29-4ea3-b6f7-3899e53338fa",
        location="s3://deltasharing/vaccine_share/acme_vaccine_data/vaccine_patients",
        auxiliary_locations=["s3://deltasharing/more"],
        access_modes=["url", "dir"],
    )
    assert table == {
        "name": "vaccine_patients",
        "schema": "acme_vaccine_data",
        "share": "vaccine_share",
        "shareId": "edacc4a7-6600-4fbb-85f3-a62a5ce6761f",
        "id": "c48f3e19-2c29-4ea3-b6f7-3899e53338fa",
        "location": "s3://deltasharing/vaccine_share/acme_vaccine_data/vaccine_patients",
        "auxiliaryLocations": ["s3://deltasharing/more"],
        "accessModes": ["url", "dir"],
    }


def test_errors() -> None:
    assert json_bodies.error(errors.NotFound("share 'n\u00f6pe' not found")) == (
        b'{"errorCode":"RESOURCE_DOES_NOT_EXIST","message":"share \'n\\u00f6pe\' not found"}'
    )
    assert json_bodies.error(errors.DeltaicError("")) == b'{"errorCode":"INTERNAL_ERROR","message":""}'


@given(st.text(), st.text(min_size=1))
def test_every_body_is_one_line_of_ascii(message: str, name: str) -> None:
    for body in (
        json_bodies.error(errors.InvalidParameter(message)),
        json_bodies.listing([json_bodies.encode(json_bodies.share_object(name, comment=message))], message),
    ):
        text = body.decode("ascii")
        assert text.splitlines() == [text]
    assert json.loads(body)["items"][0]["name"] == name
