"""Test that Spark's access to S3 comes from variables or a profile, without keys in representations."""

from pathlib import Path

import pytest
from deltaic_pipeline.spark.storage_access import S3Access

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_SESSION_TOKEN": "token-1"}


def test_variables_become_settings() -> None:
    access = S3Access.from_environment({**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_REGION": "eu-west-1"})
    assert access.hadoop() == {
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.endpoint": "http://127.0.0.1:4566",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "AKIDEXAMPLE",
        "fs.s3a.secret.key": "very-secret",
        "fs.s3a.session.token": "token-1",
    }


def test_endpoint_of_s3_has_priority() -> None:
    variables = {**KEYS, "AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}
    assert S3Access.from_environment(variables).endpoint == "http://b"


def test_aws_needs_no_endpoint_and_no_path_style() -> None:
    assert S3Access(region="eu-central-1").hadoop() == {"fs.s3a.endpoint.region": "eu-central-1"}


def test_keys_of_a_profile_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("[lake]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = hidden\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    access = S3Access.from_environment({"AWS_PROFILE": "lake"})
    assert (access.access_key_id, access.secret_access_key) == ("AKIDPROFILE", "hidden")
    assert access.region == "eu-north-1"


def test_keys_are_not_shown() -> None:
    text = repr(S3Access.from_environment(KEYS))
    assert not any(secret in text for secret in KEYS.values())


@pytest.mark.parametrize("setting", ["create.performance", "performance.flags", "enableFastS3AListFrom"])
def test_settings_that_destroy_tables_are_never_set(setting: str) -> None:
    from deltaic_pipeline.spark import session

    settings = {**session.EVERYWHERE, **session.LOCAL, **session.TESTS, **S3Access("http://a", "r", "k", "s").hadoop()}
    assert not [name for name in settings if setting in name]
