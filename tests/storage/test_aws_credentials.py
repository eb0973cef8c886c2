"""Secrets of the server: messages to recipients never quote AWS."""

import pytest
from deltaic.errors import Unavailable
from deltaic.storage.server_secret import server_secret
from deltaic_ops.local.embedded import EmbeddedAws, free_port
from storage.answers import INCOMPLETE_ANSWERS, answering


def test_an_absent_secret_is_unavailable(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable) as refusal:
        server_secret("no/such/secret", "us-east-1", embedded_aws.endpoint)
    assert "no/such/secret" not in refusal.value.message


@pytest.mark.parametrize("answer", INCOMPLETE_ANSWERS)
def test_incomplete_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with answering(answer) as endpoint, pytest.raises(Unavailable, match="try again"):
        server_secret("any", "us-east-1", endpoint)


def test_missing_answer_is_unavailable(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable):
        server_secret("any", "us-east-1", f"http://127.0.0.1:{free_port()}")
