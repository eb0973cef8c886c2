"""Sign messages with a key in AWS KMS, and get its public key."""

import base64
from typing import Any

from deltaic.errors import Unavailable
from deltaic.storage.aws_client import CATALOG, AwsClient


class KmsKey:
    """Elliptic-curve key (P-256) in KMS, named by alias, id or ARN. All errors of AWS raise Unavailable."""

    def __init__(self, name: str, region: str, endpoint: str = "") -> None:
        self._name = name
        self._client = AwsClient("kms", region, endpoint, timeouts=CATALOG)

    def public_key(self) -> bytes:
        """Return the public key in DER format (SubjectPublicKeyInfo)."""
        return self._call("PublicKey", "get_public_key", KeyId=self._name)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message of at most 4,096 bytes, in DER format (ECDSA with SHA-256)."""
        return self._call(
            "Signature",
            "sign",
            KeyId=self._name,
            Message=base64.b64encode(message).decode(),
            MessageType="RAW",
            SigningAlgorithm="ECDSA_SHA_256",
        )

    def _call(self, field: str, operation: str, **arguments: Any) -> bytes:
        try:
            return base64.b64decode(getattr(self._client, operation)(**arguments)[field])
        except Exception as error:
            raise Unavailable("the server cannot use one of its keys at the moment; try again") from error
