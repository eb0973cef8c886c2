"""Test that settings are read from the environment, and that invalid values are reported."""

from datetime import timedelta

import pytest
from deltaic.settings import Settings


def test_unset_variables_have_defaults() -> None:
    defaults = Settings.read({})
    assert defaults == Settings()
    assert (defaults.url_ttl, defaults.response_streaming, defaults.endpoint_url) == (
        timedelta(hours=1),
        "disabled",
        "",
    )


def test_the_stream_limit_is_that_of_lambda() -> None:
    """AWS, "Lambda quotas": the maximum size of a streamed response is 200 MB."""
    assert Settings().stream_limit_bytes == 200 * 10**6


def test_a_page_fits_into_the_burst_of_lambda() -> None:
    """AWS, "Response streaming": the first 6 MB of an answer have no limit on their pace."""
    assert 5_900_000 < Settings().page_bytes < 6_000_000


def test_every_variable_is_read() -> None:
    settings = Settings.read(
        {
            "CATALOG_TABLE": "c",
            "TOKENS_TABLE": "t",
            "TOKEN_KEY_SECRET": "k",
            "SIGNING_ROLE_ARN": "arn:aws:iam::1:role/r",
            "URL_TTL_SECONDS": "900",
            "RESPONSE_STREAMING": "enabled",
            "STREAM_LIMIT_BYTES": "0",
            "SERVER_PAGES": "disabled",
            "UNREAD_STATISTICS": "enabled",
            "PAGE_BYTES": "10000",
            "CONTACT": "data@shares.test",
            "EXPLORE": "enabled",
            "ICEBERG_FILES_AT_ONCE": "9",
            "ICEBERG_MAKER": "maker",
            "CORS_ORIGINS": "https://a.example",
            "NOTICE_DAYS": "14",
            "NOTICES_BUS": "own",
            "NOTICES_SOURCE": "deltaic-prod",
            "AWS_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        }
    )
    assert settings == Settings(
        catalog_table="c",
        tokens_table="t",
        token_key_secret="k",
        signing_role_arn="arn:aws:iam::1:role/r",
        url_ttl_seconds=900,
        response_streaming="enabled",
        stream_limit_bytes=0,
        server_pages="disabled",
        unread_statistics="enabled",
        page_bytes=10_000,
        contact="data@shares.test",
        explore="enabled",
        iceberg_files_at_once=9,
        iceberg_maker="maker",
        cors_origins="https://a.example",
        notice_days=14,
        notices_bus="own",
        notices_source="deltaic-prod",
        region="eu-central-1",
        endpoint_url="http://127.0.0.1:1",
        memory_mb=512,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("URL_TTL_SECONDS", "59", id="too_short"),
        pytest.param("URL_TTL_SECONDS", "604801", id="longer_than_s3_allows"),
        pytest.param("URL_TTL_SECONDS", "an hour", id="not_a_number"),
        pytest.param("RESPONSE_STREAMING", "yes", id="neither_enabled_nor_disabled"),
        pytest.param("STREAM_LIMIT_BYTES", "3999999", id="too_little_to_end_in_time"),
        pytest.param("STREAM_LIMIT_BYTES", "-1", id="less_than_nothing"),
        pytest.param("SERVER_PAGES", "no", id="no_pages_neither_enabled_nor_disabled"),
        pytest.param("PAGE_BYTES", "9999", id="too_little_for_a_page"),
        pytest.param("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "much", id="memory"),
    ],
)
def test_an_invalid_variable_is_reported_by_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        Settings.read({name: value})


@pytest.mark.parametrize("value", ["60", "604800"])
def test_the_limits_of_the_url_lifetime_are_valid(value: str) -> None:
    assert Settings.read({"URL_TTL_SECONDS": value}).url_ttl == timedelta(seconds=int(value))
