"""The key in KMS that signs the JWTs of our own clients."""

from functools import cache

from deltaic.identity.jose import Jwk
from deltaic.identity.server_tokens import public_jwk
from deltaic.settings import settings
from deltaic.storage.kms_key import KmsKey


@cache
def server_key() -> KmsKey:
    """Return the key."""
    return KmsKey(settings().oauth_key, settings().region, settings().endpoint_url)


def public_key() -> Jwk:
    """Return its public half, as KMS has it now."""
    return public_jwk(server_key().public_key())
