"""Locations of a table, and where a path of its log lies: which bucket and key, and whether that key may be shared.

A path in a log is a URI, relative to the table's root or absolute; it is decoded exactly once, and then resolved as
Hadoop resolves it, because that is what wrote it: `.` and `..` are followed, repeated slashes count as one. What lies
outside the root and the table's auxiliary locations is refused: the log's author must not choose what gets signed
(decision 23).
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import quote, unquote_to_bytes

import msgspec

from deltaic.errors import InvalidParameter, TableUnreadable, UnsupportedOperation

if TYPE_CHECKING:
    import pyarrow as pa

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
"""Three spellings of one place: Hadoop connectors differ, the objects do not."""

SAFE_IN_KEYS = "/-_.~"
"""What SigV4 leaves as it is in a path, besides letters and digits (AWS, "Signing and authenticating requests")."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_ACCESS_POINT = re.compile(r"(arn:aws[a-z-]*:s3:([a-z0-9-]+):(\d{12}):accesspoint/([a-z0-9-]{3,50}))(?:/|$)")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_SEGMENT = "[A-Za-z0-9_~=-][A-Za-z0-9_.~=-]*"
# A path that needs nothing but `=` encoded: no escape, no empty segment, none that starts with a dot.
_PLAIN = f"^(?:{_SEGMENT}/)*{_SEGMENT}$"
_PLAIN_PATH = re.compile(_PLAIN[:-1])
_PLAIN_FILE = re.compile(_SEGMENT)
_FOLLOWED = frozenset({"", ".", ".."})


def encode_key(key: str) -> str:
    """Return `key` as S3 signs it: every byte of its UTF-8 form percent-encoded but letters, digits and `/-_.~`.

    Raises TableUnreadable for a key that no UTF-8 can express.
    """
    try:
        return quote(key, safe=SAFE_IN_KEYS)
    except UnicodeEncodeError as error:
        raise TableUnreadable("the log names a file that cannot be an S3 key", f"{key!a}") from error


class ObjectName(NamedTuple):
    """A bucket and a key in it, not encoded."""

    bucket: str
    key: str
    """As S3 stores it."""


class AccessPoint(NamedTuple):
    """An access point of S3, which stands for its bucket."""

    region: str
    account: str
    name: str


def access_point(bucket: str) -> AccessPoint | None:
    """Return the access point that a location names by its ARN; None for a bucket."""
    match = _ACCESS_POINT.fullmatch(bucket)
    return None if match is None else AccessPoint(match[2], match[3], match[4])


class Location(msgspec.Struct, frozen=True):
    """A folder in a bucket; `prefix` has no slash at either end and is empty for the whole bucket."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read `s3://bucket/prefix` (or s3a, s3n) as a provider types it: not percent-encoded, slashes at the end free.

        An access point stands in the bucket's place by its ARN: `s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/name/prefix`.

        Raises InvalidParameter for anything else, and for prefixes that no Hadoop or Rust writer can write below:
        empty, `.` and `..` segments.
        """
        scheme, separator, rest = uri.partition("://")
        if not separator or scheme.lower() not in S3_SCHEMES:
            raise InvalidParameter(f"'{uri}' is not a table location: write s3://bucket/folder")
        if point := _ACCESS_POINT.match(rest):
            bucket, prefix = point[1], rest[point.end() :]
        else:
            bucket, _, prefix = rest.partition("/")
        if bucket.endswith("--x-s3"):
            raise InvalidParameter(
                "the location is in an S3 directory bucket, which lists files in no order: use a general purpose bucket"
            )
        if not point and not _BUCKET.fullmatch(bucket):
            raise InvalidParameter(f"'{uri}' does not name a bucket: write s3://bucket/folder")
        prefix = prefix.strip("/")
        if prefix and any(segment in _FOLLOWED for segment in prefix.split("/")):
            raise InvalidParameter(f"'{uri}' has an empty, '.' or '..' segment: write the folder's plain path")
        if any(character < " " or character == "\x7f" for character in prefix):
            raise InvalidParameter("the location holds a control character: write s3://bucket/folder")
        return cls(bucket, prefix)

    @property
    def uri(self) -> str:
        """The location as `s3://bucket/prefix`, without a slash at the end."""
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    @property
    def key_prefix(self) -> str:
        """What every key below this location starts with: the prefix with a slash, or nothing for a whole bucket."""
        return f"{self.prefix}/" if self.prefix else ""

    def contains(self, other: "Location") -> bool:
        """Tell whether `other` is this location or lies below it; a sibling with the same beginning does not."""
        return self.bucket == other.bucket and f"{other.prefix}/".startswith(self.key_prefix)

    def holds(self, name: ObjectName) -> bool:
        """Tell whether an object lies below this location."""
        return self.bucket == name.bucket and name.key.startswith(self.key_prefix) and name.key != self.key_prefix


class TableLocations(msgspec.Struct, frozen=True):
    """The root of a table and the other locations that its log may point into."""

    root: Location
    auxiliary: tuple[Location, ...] = ()

    @classmethod
    def parse(cls, root: str, auxiliary: Sequence[str] = ()) -> Self:
        """Read the root and the auxiliary locations; raises InvalidParameter as `Location.parse` does."""
        return cls(Location.parse(root), tuple(Location.parse(uri) for uri in auxiliary))

    def __iter__(self) -> Iterator[Location]:
        yield self.root
        yield from self.auxiliary

    def resolve(self, path: str) -> ObjectName:
        """Return the object that a raw `path` of the log means (Delta protocol, "Add File and Remove File").

        Raises UnsupportedOperation, naming the remedy, for an object outside the root and the auxiliary locations,
        and TableUnreadable for a path that names no object.
        """
        absolute = _ABSOLUTE.match(path)
        if absolute is None:
            if path.startswith("/"):
                raise self._elsewhere(path, "is an absolute path without a bucket")
            name = ObjectName(self.root.bucket, _normalised(self.root.key_prefix + _decoded(path), path))
        else:
            if absolute[1].lower() not in S3_SCHEMES:
                raise self._elsewhere(path, f"is a '{absolute[1].lower()}:' URI, which recipients cannot read")
            bucket, _, key = path[absolute.end() :].lstrip("/").partition("/")
            name = ObjectName(bucket, _normalised(_decoded(key), path))
        if not any(location.holds(name) for location in self):
            raise self._elsewhere(path, "lies outside the table")
        return name

    def object_name(self, path: str) -> ObjectName:
        """Return the object at `path`: below the root and not encoded, or an absolute URI (the port TableStore)."""
        if _ABSOLUTE.match(path):
            return self.resolve(path)
        name = ObjectName(self.root.bucket, _normalised(self.root.key_prefix + path, path))
        if not self.root.holds(name):
            raise self._elsewhere(path, "lies outside the table")
        return name

    def encoded(self, path: str) -> bytes | None:
        """Return one raw path of the log as S3 signs it, relative to the root; None in an auxiliary location.

        Raises what `resolve` raises.
        """
        if _PLAIN_PATH.fullmatch(path):
            return path.replace("=", "%3D").encode()
        name = self.resolve(path)
        if not self.root.holds(name):
            return None
        return encode_key(name.key[len(self.root.key_prefix) :]).encode()

    def relative(self, paths: "pa.StringArray") -> list[bytes] | None:
        """Return raw paths of the log (no nulls) as S3 signs them, relative to the root.

        Absolute paths below the root become relative. None when one of them lies in an auxiliary location: then
        each must be resolved on its own. Raises what `resolve` raises.
        """
        import pyarrow as pa

        from deltaic import compute as pc

        if not len(paths):
            return []
        if pc.all(pc.match_substring_regex(paths, _PLAIN)).as_py():
            # Joined in Arrow and split in Python: a quarter of the time of `to_pylist`. No plain path has a newline.
            encoded = pc.replace_substring(paths, "=", "%3D")
            whole = pc.binary_join(pa.ListArray.from_arrays([0, len(encoded)], encoded), "\n")
            return whole[0].as_buffer().to_pybytes().split(b"\n")  # type: ignore[no-any-return]
        return self._relative_one_by_one(paths.to_pylist())

    def uris(self, paths: "pa.StringArray") -> list[str]:
        """Return raw paths of the log (no nulls) as `s3://bucket/key`, not encoded; raises what `resolve` raises."""
        import pyarrow as pa

        from deltaic import compute as pc

        base = f"s3://{self.root.bucket}/{self.root.key_prefix}"
        if len(paths) and pc.all(pc.match_substring_regex(paths, _PLAIN)).as_py():
            # As in `relative`; a base has no newline either.
            joined = pc.binary_join(pa.ListArray.from_arrays([0, len(paths)], paths), f"\n{base}")
            return f"{base}{joined[0].as_py()}".split("\n")
        return ["s3://{}/{}".format(*self.resolve(path)) for path in paths.to_pylist()]

    def _relative_one_by_one(self, paths: Sequence[str]) -> list[bytes] | None:
        # Paths share few folders (partitions): each folder is decoded and encoded once, plain file names never.
        folders: dict[str, bytes | None] = {}
        answer: list[bytes] = []
        for path in paths:
            cut = path.rfind("/") + 1
            folder, file = path[:cut], path[cut:]
            try:
                encoded = folders[folder]
            except KeyError:
                encoded = folders[folder] = _encoded_folder(folder)
            if encoded is not None and _PLAIN_FILE.fullmatch(file):
                answer.append(encoded + file.replace("=", "%3D").encode())
                continue
            careful = self.encoded(path)
            if careful is None:
                return None
            answer.append(careful)
        return answer

    def _elsewhere(self, path: str, why: str) -> UnsupportedOperation:
        return UnsupportedOperation(
            f"the table's log points to a file that {why}. The table's provider can add the file's folder to the "
            "table's auxiliary locations, or rewrite the table below its own folder",
            f"{_shown(path)} is neither below {self.root.uri} nor an auxiliary location (--auxiliary s3://bucket/folder)",
        )


def _encoded_folder(folder: str) -> bytes | None:
    """Encode a relative folder, given with its slash; None: each of its files must be resolved with care."""
    if not folder:
        return b""
    if folder.startswith("/") or _ABSOLUTE.match(folder):
        return None
    decoded = _decoded(folder)
    if any(segment in _FOLLOWED for segment in decoded[:-1].split("/")):
        return None
    return encode_key(decoded).encode()


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise TableUnreadable("the log names a file whose path is not UTF-8", _shown(path)) from error


def _normalised(key: str, path: str) -> str:
    """Follow `.` and `..` and merge slashes, as Hadoop's Path does; what would leave the bucket is refused."""
    followed = follow(key)
    if followed is None:
        raise UnsupportedOperation("the table's log points to a file outside its bucket", _shown(path))
    if not followed:
        raise TableUnreadable("the log names a file without a path", _shown(path))
    return followed


def follow(path: str) -> str | None:
    """Follow `.` and `..` in a path below a bucket and merge its slashes; None where it leads out of the bucket."""
    if _FOLLOWED.isdisjoint(segments := path.split("/")):
        return path
    trail: list[str] = []
    for segment in segments:
        if segment == ".." and not trail:
            return None
        if segment == "..":
            trail.pop()
        elif segment not in {"", "."}:
            trail.append(segment)
    return "/".join(trail)


def _shown(path: str) -> str:
    return repr(path if len(path) <= 300 else path[:300] + "...")  # noqa: PLR2004 -- enough to find it in a log
