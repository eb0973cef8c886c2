"""AWS KMS key that signs the JWTs for the server's OAuth clients."""

from functools import cache

from deltaic.identity.jose import Jwk
from deltaic.identity.server_tokens import public_jwk
from deltaic.settings import settings
from deltaic.storage.kms_key import KmsKey


@cache
def server_key() -> KmsKey:
    """Return the object that signs JWTs with the server's AWS KMS key; it is created at the first call."""
    return KmsKey(settings().oauth_key, settings().region, settings().endpoint_url)


def public_key() -> Jwk:
    """Read the public key of the server's signing key from AWS KMS."""
    return public_jwk(server_key().public_key())
