"""The server's own secrets: what AWS answers is never shown to recipients."""

import pytest
from deltaic.errors import Unavailable
from deltaic.storage.credentials import server_secret
from deltaic_ops.local.embedded import EmbeddedAws, free_port


def test_an_absent_secret_is_unavailable(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable) as refusal:
        server_secret("no/such/secret", "us-east-1", embedded_aws.endpoint)
    assert "no/such/secret" not in refusal.value.message


def test_nobody_who_answers_is_unavailable(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Unavailable):
        server_secret("any", "us-east-1", f"http://127.0.0.1:{free_port()}")
