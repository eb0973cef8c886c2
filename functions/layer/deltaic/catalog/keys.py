"""The key of each item, chosen so that every listing is one key range and every look-up one key.

Names cannot contain '/' or control characters, so '/' separates and U+0000 is lower than any name's continuation.
"""

from hashlib import sha256
from typing import Final, NamedTuple

from deltaic.protocol import names

# A sort key holds 1,024 bytes of UTF-8. Two names of 255 characters of four bytes each do not fit, so each is cut to
# this many bytes: `table/` + 500 + `/` + 500 + the U+0000 of a lower bound.
SEGMENT_BYTES: Final = 500
_DIGEST_CHARACTERS: Final = 64


class Key(NamedTuple):
    """The full primary key of one item."""

    pk: str
    sk: str


class KeyRange(NamedTuple):
    """A stretch of one partition: sort keys from `low` to `high`, both inclusive."""

    pk: str
    low: str
    high: str


class KeyPrefix(NamedTuple):
    """The items of a kind wherever they lie: by what both parts of their keys begin with."""

    pk: str
    sk: str
    has: str = ""
    """An attribute that they must have."""


TOKEN_ENTRIES: Final = KeyPrefix("recipient/", "token/")
GRANTS: Final = KeyPrefix("recipient/", "grant/")
ENDING_GRANTS: Final = KeyPrefix("recipient/", "grant/", "ends_at")


OVERLAPS: Final = Key("overlaps", "overlaps")
"""Where the revision of the entries lies that share a folder whole, or a table in part."""


def segment(name: str) -> str:
    """Return a name as it stands in keys: lower-cased, and at most `SEGMENT_BYTES` bytes of UTF-8.

    A longer name keeps its first bytes, for the order, then a space, which no name contains, and the digest of the
    whole. Any string is accepted, legal or not: what a recipient types must be looked up, not refused.
    """
    key = names.key(name)
    encoded = key.encode("utf-8", "surrogatepass")
    try:
        if len(encoded) <= SEGMENT_BYTES and encoded.decode("utf-8"):
            return key
    except UnicodeDecodeError:
        pass  # a lone surrogate, from a path that is not UTF-8: it has no place in a key, and no name holds one
    head = encoded[: SEGMENT_BYTES - _DIGEST_CHARACTERS - 1].decode("utf-8", "ignore")
    return f"{head} {sha256(encoded).hexdigest()}"


def catalog_entry(kind: str, name: str) -> Key:
    """Where a share, a recipient or a storage lies."""
    return Key(f"{kind}s", f"{kind}/{segment(name)}")


def schema(share_name: str, name: str) -> Key:
    """Where a schema lies."""
    return Key(f"share/{segment(share_name)}", f"schema/{segment(name)}")


def asset(kind: str, share_name: str, schema_name: str, name: str) -> Key:
    """Where a table, a volume, a skill, a model or the definition of a view lies."""
    return Key(f"share/{segment(share_name)}", f"{kind}/{segment(schema_name)}/{segment(name)}")


def model_version(share_name: str, model_id: str, version: int) -> Key:
    """Where a version of a model lies."""
    return Key(f"share/{segment(share_name)}/{segment(model_id)}", f"version/{version:019d}")


def share_entry(kind: str, share_name: str, name: str) -> Key:
    """Where a follow (by its schema) or a grant (by its recipient's id) lies in a share."""
    return Key(f"share/{segment(share_name)}", f"{kind}/{segment(name)}")


def recipient_entry(kind: str, identifier: str, name: str) -> Key:
    """Where a token, a policy, a client (by its id or its place) or a grant (by its share) lies with its recipient."""
    return Key(f"recipient/{segment(identifier)}", f"{kind}/{segment(name)}")


def limit_counter(kind: str, identifier: str, window: int) -> Key:
    """Where a recipient's `requests` of a minute or `bytes` of a day are counted (minutes or days since the epoch)."""
    return Key(f"limits/{segment(identifier)}", f"{kind}/{window}")


def view_partition(share_name: str, table_id: str, audience: str) -> Key:
    """Where it is recorded that a view has the rows of an audience: apart from entries, which jobs must not delete."""
    return Key(f"share/{segment(share_name)}/{segment(table_id)}", f"variant/{segment(audience)}")


def recipient_id(identifier: str) -> Key:
    """Where it is recorded that a recipient of this id exists."""
    return Key(f"recipient/{segment(identifier)}", "recipient")


def share_overlaps(share_name: str) -> Key:
    """Where a share counts the tables that entered a folder and the filters that its grants got."""
    return Key(f"share/{segment(share_name)}", "overlaps")


def lease(location: str) -> Key:
    """Where the lease on a table location lies."""
    # Object keys are case-sensitive and long, so it is the digest of the location that is unique.
    return Key(f"lease/{sha256(location.encode()).hexdigest()}", "lease")


def location_state(kind: str, location: str, storage: str) -> Key:
    """Where it is kept when a location was last checked (`checkpoint`), or its last known version (`version`)."""
    return Key(f"{kind}/{_digest(f'{storage}/{location}')}", kind)


def query(recipient_id: str, table_id: str, query_id: str) -> Key:
    """Where a recipient's query on a table lies; any text is accepted as its id."""
    return Key(f"query/{segment(recipient_id)}", f"{segment(table_id)}/{_digest(query_id)}")


def live_queries(recipient_id: str) -> Key:
    """Where a recipient's live queries are counted; no query lies there, for their keys have a slash."""
    return Key(f"query/{segment(recipient_id)}", "live")


def token(secret: str) -> Key:
    """Where a token lies: found by whoever holds the secret, and useless to whoever reads the table."""
    return Key(f"token/{_digest(secret)}", "token")


def invitation(recipient: str, secret: str) -> Key:
    """Where an invitation lies: in its recipient's list, and found by whoever holds the link's secret."""
    return Key(f"recipient/{segment(recipient)}", f"invitation/{_digest(secret)}")


def policy(issuer: str, meant: str) -> Key:
    """Where a policy lies as the authorizer finds it: by the issuer, whom it means."""
    return Key(f"issuer/{_digest(issuer)}", f"policy/{_digest(meant)}")


def oauth_client(client_id: str) -> Key:
    """Where a client of ours lies, with the hash of its secret."""
    return Key(f"client/{segment(client_id)}", "client")


def token_list(recipient: str) -> Key:
    """Where the revision of a recipient's list of tokens lies."""
    return Key(f"recipient/{segment(recipient)}", "tokens")


def all_of(kind: str, after: str | None = None) -> KeyRange:
    """All shares, recipients or storages, strictly after the key `after`."""
    return _range(f"{kind}s", f"{kind}/", after)


def of_share(kind: str, share_name: str, after: str | None = None) -> KeyRange:
    """The schemas, follows, views or grants of a share."""
    return _range(f"share/{segment(share_name)}", f"{kind}/", after)


def of_recipient(kind: str, identifier: str, after: str | None = None) -> KeyRange:
    """The grants, tokens, invitations, policies or clients of a recipient."""
    return _range(f"recipient/{segment(identifier)}", f"{kind}/", after)


def in_schema(kind: str, share_name: str, schema_name: str, after: str | None = None) -> KeyRange:
    """The tables, volumes, skills or models of a schema."""
    return of_share(f"{kind}/{segment(schema_name)}", share_name, after)


def in_share(kind: str, share_name: str, after: str | None = None) -> KeyRange:
    """The tables, volumes, skills or models of all schemas of a share; `after` is `<schema key>/<key>`."""
    stretch = of_share(kind, share_name)
    if after is None:
        return stretch
    schema_key, _, key = after.partition("/")
    return stretch._replace(low=f"{kind}/{segment(schema_key)}/{segment(key)}\0")


def model_versions(share_name: str, model_id: str, after: str | None = None) -> KeyRange:
    """The versions of a model, by their numbers."""
    return _range(f"share/{segment(share_name)}/{segment(model_id)}", "version/", after)


def view_partitions(share_name: str, table_id: str) -> KeyRange:
    """The audiences whose rows a view has."""
    return _range(f"share/{segment(share_name)}/{segment(table_id)}", "variant/", None)


def grants_and_record(recipient: str, after: str | None = None) -> KeyRange:
    """The shares granted to a recipient, and behind the last of them the record of its id."""
    grants_only, record = of_recipient("grant", recipient, after), recipient_id(recipient)
    return KeyRange(record.pk, grants_only.low, record.sk)


def policies(issuer: str) -> KeyRange:
    """The policies of an issuer."""
    return _range(f"issuer/{_digest(issuer)}", "policy/", None)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _range(pk: str, prefix: str, after: str | None) -> KeyRange:
    # '0' follows '/', so the prefix with '0' in its last place is above everything that begins with the prefix.
    low = prefix if after is None else f"{prefix}{segment(after)}\0"
    return KeyRange(pk, low, f"{prefix[:-1]}0")
