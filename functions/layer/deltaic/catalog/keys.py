"""Build DynamoDB keys for single items, and key ranges for listings.

Names contain neither '/' nor control characters. So '/' separates the parts of a key, and a name followed by U+0000
sorts directly after the name, before every longer name that begins with it.
"""

from hashlib import sha256
from typing import Final, NamedTuple

from deltaic.protocol import names

# A sort key has at most 1,024 bytes of UTF-8: `table/` + 500 + `/` + 500 + the U+0000 of a lower bound. Two names of
# 255 characters of four bytes each do not fit, so each is cut to this many bytes.
SEGMENT_BYTES: Final = 500
_DIGEST_CHARACTERS: Final = 64


class Key(NamedTuple):
    """Primary key of one item: partition key and sort key."""

    pk: str
    sk: str


class KeyRange(NamedTuple):
    """Range of items with the same partition key: sort keys from `low` to `high`, both inclusive."""

    pk: str
    low: str
    high: str


class KeyPrefix(NamedTuple):
    """Prefixes of partition key and sort key that select items in a scan of the whole table."""

    pk: str
    sk: str
    attribute: str = ""
    """Attribute that the items must have; empty: none."""


TOKEN_ENTRIES: Final = KeyPrefix("recipient/", "token/")
GRANTS: Final = KeyPrefix("recipient/", "grant/")
ENDING_GRANTS: Final = KeyPrefix("recipient/", "grant/", "ends_at")


OVERLAPS: Final = Key("overlaps", "overlaps")
"""Key of the counter that every change of a filtered table or an unfiltered folder increments."""


def segment(name: str) -> str:
    """Convert a name to its form in keys: lower case, at most `SEGMENT_BYTES` bytes.

    A name that is too long is truncated to preserve the sort order. A space, which no name contains, and the SHA-256
    of the full name follow. Accepts invalid names, because recipients get the same error for them as for unknown ones.
    """
    key = names.key(name)
    encoded = key.encode("utf-8", "surrogatepass")
    try:
        if len(encoded) <= SEGMENT_BYTES and encoded.decode("utf-8"):
            return key
    except UnicodeDecodeError:
        pass  # a lone surrogate, from a path that is not UTF-8: keys and names cannot contain it
    head = encoded[: SEGMENT_BYTES - _DIGEST_CHARACTERS - 1].decode("utf-8", "ignore")
    return f"{head} {sha256(encoded).hexdigest()}"


def catalog_entry(kind: str, name: str) -> Key:
    """Return the DynamoDB key of a share, a recipient or a storage."""
    return Key(f"{kind}s", f"{kind}/{segment(name)}")


def schema(share_name: str, name: str) -> Key:
    """Return the DynamoDB key of a schema."""
    return Key(f"share/{segment(share_name)}", f"schema/{segment(name)}")


def asset(kind: str, share_name: str, schema_name: str, name: str) -> Key:
    """Return the DynamoDB key of a table, volume or skill, of a model, or of a view's definition."""
    return Key(f"share/{segment(share_name)}", f"{kind}/{segment(schema_name)}/{segment(name)}")


def model_version(share_name: str, model_id: str, version: int) -> Key:
    """Return the DynamoDB key of one version of a model."""
    return Key(f"share/{segment(share_name)}/{segment(model_id)}", f"version/{version:019d}")


def share_entry(kind: str, share_name: str, name: str) -> Key:
    """Return the DynamoDB key of a schema's followed source, or of a grant in its share's list (by recipient id)."""
    return Key(f"share/{segment(share_name)}", f"{kind}/{segment(name)}")


def recipient_entry(kind: str, identifier: str, name: str) -> Key:
    """Return the DynamoDB key of a token, policy, client (by slot) or grant (by share) in its recipient's list."""
    return Key(f"recipient/{segment(identifier)}", f"{kind}/{segment(name)}")


def limit_counter(kind: str, identifier: str, window: int) -> Key:
    """Return the key of a recipient's count of `requests` (`window`: minute since 1970) or `bytes` (`window`: day)."""
    return Key(f"limits/{segment(identifier)}", f"{kind}/{window}")


def view_partition(share_name: str, table_id: str, audience: str) -> Key:
    """Return the key of a view's partition for an audience (recipients with equal properties); jobs can delete it."""
    return Key(f"share/{segment(share_name)}/{segment(table_id)}", f"variant/{segment(audience)}")


def recipient_id(identifier: str) -> Key:
    """Return the DynamoDB key of the copy of a recipient's limits and properties for the API functions."""
    return Key(f"recipient/{segment(identifier)}", "recipient")


def share_overlaps(share_name: str) -> Key:
    """Return the DynamoDB key of a share's counters of added tables and of added grant filters."""
    return Key(f"share/{segment(share_name)}", "overlaps")


def lease(location: str) -> Key:
    """Return the DynamoDB key of the lease on a table location."""
    # A digest, because locations are case-sensitive and long.
    return Key(f"lease/{sha256(location.encode()).hexdigest()}", "lease")


def location_state(kind: str, location: str, storage: str) -> Key:
    """Return the DynamoDB key of a location's last `checkpoint` check, or of its last reported `version`."""
    return Key(f"{kind}/{_digest(f'{storage}/{location}')}", kind)


def query(recipient_id: str, table_id: str, query_id: str) -> Key:
    """Return the DynamoDB key of a recipient's submitted query on a table; the query id can be any string."""
    return Key(f"query/{segment(recipient_id)}", f"{segment(table_id)}/{_digest(query_id)}")


def live_queries(recipient_id: str) -> Key:
    """Return the DynamoDB key of the list of a recipient's unexpired queries; no query has its sort key."""
    return Key(f"query/{segment(recipient_id)}", "live")


def token(secret: str) -> Key:
    """Return the DynamoDB key of a token: a hash, so that the key does not reveal the secret."""
    return Key(f"token/{_digest(secret)}", "token")


def invitation(recipient: str, secret: str) -> Key:
    """Return the DynamoDB key of an invitation in its recipient's list, derived from the secret of its link."""
    return Key(f"recipient/{segment(recipient)}", f"invitation/{_digest(secret)}")


def policy(issuer: str, subject: str) -> Key:
    """Return the key under which the authorizer finds a policy by its issuer and subject."""
    return Key(f"issuer/{_digest(issuer)}", f"policy/{_digest(subject)}")


def oauth_client(client_id: str) -> Key:
    """Return the DynamoDB key of an OAuth client, whose item also contains the hash of its secret."""
    return Key(f"client/{segment(client_id)}", "client")


def token_list(recipient: str) -> Key:
    """Return the DynamoDB key of the item that counts the changes of a recipient's list of tokens."""
    return Key(f"recipient/{segment(recipient)}", "tokens")


def all_of(kind: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of all shares, recipients or storages whose key is greater than `after`."""
    return _range(f"{kind}s", f"{kind}/", after)


def of_share(kind: str, share_name: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of the schemas, followed sources, views or grants of a share."""
    return _range(f"share/{segment(share_name)}", f"{kind}/", after)


def of_recipient(kind: str, identifier: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of the grants, tokens, invitations, policies or clients of a recipient."""
    return _range(f"recipient/{segment(identifier)}", f"{kind}/", after)


def in_schema(kind: str, share_name: str, schema_name: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of the tables, volumes, skills or models of a schema."""
    return of_share(f"{kind}/{segment(schema_name)}", share_name, after)


def in_share(kind: str, share_name: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of a share's tables, volumes, skills or models after `<schema>/<name>`."""
    key_range = of_share(kind, share_name)
    if after is None:
        return key_range
    schema_key, _, key = after.partition("/")
    return key_range._replace(low=f"{kind}/{segment(schema_key)}/{segment(key)}\0")


def model_versions(share_name: str, model_id: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of the versions of a model, in ascending order of version numbers."""
    return _range(f"share/{segment(share_name)}/{segment(model_id)}", "version/", after)


def view_partitions(share_name: str, table_id: str) -> KeyRange:
    """Return the DynamoDB key range of a view's partitions."""
    return _range(f"share/{segment(share_name)}/{segment(table_id)}", "variant/", None)


def grants_and_record(recipient: str, after: str | None = None) -> KeyRange:
    """Return the DynamoDB key range of a recipient's grants, followed by the copy of its limits and properties."""
    grants_only, record = of_recipient("grant", recipient, after), recipient_id(recipient)
    return KeyRange(record.pk, grants_only.low, record.sk)


def policies(issuer: str) -> KeyRange:
    """Return the DynamoDB key range of the federation policies for an issuer."""
    return _range(f"issuer/{_digest(issuer)}", "policy/", None)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _range(pk: str, prefix: str, after: str | None) -> KeyRange:
    # '0' follows '/' in ASCII, so the prefix with '0' as its last character sorts after everything with the prefix.
    low = prefix if after is None else f"{prefix}{segment(after)}\0"
    return KeyRange(pk, low, f"{prefix[:-1]}0")
