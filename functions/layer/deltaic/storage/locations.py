"""Parse the locations of a table, and resolve each path in its Delta log to a bucket and key.

A path in the log is a URI, relative to the table's root or absolute. It is decoded exactly once, and then resolved as
Hadoop does: `.` and `..` segments are resolved, and repeated slashes count as one. Paths outside the root and the
table's auxiliary locations are rejected, so that writers of the log cannot get other objects signed (decision 23).
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
"""URI schemes of S3 and the Hadoop connectors, which name the same objects."""

SAFE_IN_KEYS = "/-_.~"
"""Characters besides letters and digits that AWS Signature Version 4 does not percent-encode in a path."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_ACCESS_POINT = re.compile(r"(arn:aws[a-z-]*:s3:([a-z0-9-]+):(\d{12}):accesspoint/([a-z0-9-]{3,50}))(?:/|$)")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_SEGMENT = "[A-Za-z0-9_~=-][A-Za-z0-9_.~=-]*"
# A path in which only `=` needs encoding: without escapes, empty segments, or segments that start with a dot.
_SIMPLE = f"^(?:{_SEGMENT}/)*{_SEGMENT}$"
_SIMPLE_PATH = re.compile(_SIMPLE[:-1])
_SIMPLE_FILE = re.compile(_SEGMENT)
_RESOLVED_SEGMENTS = frozenset({"", ".", ".."})


def encode_key(key: str) -> str:
    """Percent-encode an object key for S3: all UTF-8 bytes except letters, digits and `/-_.~`.

    Raises TableUnreadable for a key that cannot be encoded in UTF-8.
    """
    try:
        return quote(key, safe=SAFE_IN_KEYS)
    except UnicodeEncodeError as error:
        raise TableUnreadable("the table's log has a file whose path is not a valid S3 key", f"{key!a}") from error


class ObjectName(NamedTuple):
    """Bucket and key of an object, without percent-encoding."""

    bucket: str
    key: str
    """Object key, without percent-encoding."""


class AccessPoint(NamedTuple):
    """Parsed ARN of an S3 access point, which a location can have instead of a bucket."""

    region: str
    account: str
    name: str


def access_point(bucket: str) -> AccessPoint | None:
    """Parse the ARN of an access point in a location; return None for the name of a bucket."""
    match = _ACCESS_POINT.fullmatch(bucket)
    return None if match is None else AccessPoint(match[2], match[3], match[4])


class Location(msgspec.Struct, frozen=True):
    """Folder in a bucket; `prefix` has no slash at the start or end, and is empty for the complete bucket."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse `s3://bucket/prefix` (or s3a, s3n), without percent-encoding, with or without slashes at the end.

        The ARN of an access point can replace the bucket:
        `s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/name/prefix`.

        Raises InvalidParameter for other strings, and for empty, `.` and `..` segments, because neither Hadoop nor Rust
        writers can write to such prefixes.
        """
        scheme, separator, rest = uri.partition("://")
        if not separator or scheme.lower() not in S3_SCHEMES:
            raise InvalidParameter(f"'{uri}' is not a table location: use the form s3://bucket/folder")
        if point := _ACCESS_POINT.match(rest):
            bucket, prefix = point[1], rest[point.end() :]
        else:
            bucket, _, prefix = rest.partition("/")
        if bucket.endswith("--x-s3"):
            raise InvalidParameter(
                f"'{uri}' is in an S3 directory bucket, whose listings are not in order: use a general purpose bucket"
            )
        if not point and not _BUCKET.fullmatch(bucket):
            raise InvalidParameter(f"'{uri}' has no valid bucket name: use the form s3://bucket/folder")
        prefix = prefix.strip("/")
        if prefix and any(segment in _RESOLVED_SEGMENTS for segment in prefix.split("/")):
            raise InvalidParameter(f"'{uri}' has an empty, '.' or '..' segment: write the folder's path without it")
        if any(character < " " or character == "\x7f" for character in prefix):
            raise InvalidParameter("the location has a control character: remove it, or rename the folder")
        return cls(bucket, prefix)

    @property
    def uri(self) -> str:
        """URI of the location: `s3://bucket/prefix`, without a slash at the end."""
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    @property
    def key_prefix(self) -> str:
        """Common prefix of all keys in this location: the prefix with a slash, or empty for a complete bucket."""
        return f"{self.prefix}/" if self.prefix else ""

    def contains(self, other: "Location") -> bool:
        """Return whether `other` is this location or a folder in it."""
        return self.bucket == other.bucket and f"{other.prefix}/".startswith(self.key_prefix)

    def holds(self, name: ObjectName) -> bool:
        """Return whether an object is in this location."""
        return self.bucket == name.bucket and name.key.startswith(self.key_prefix) and name.key != self.key_prefix


class TableLocations(msgspec.Struct, frozen=True):
    """Root location of a table, and the auxiliary locations that its log may use."""

    root: Location
    auxiliary: tuple[Location, ...] = ()

    @classmethod
    def parse(cls, root: str, auxiliary: Sequence[str] = ()) -> Self:
        """Parse the root and the auxiliary locations; raises the errors of `Location.parse`."""
        return cls(Location.parse(root), tuple(Location.parse(uri) for uri in auxiliary))

    def __iter__(self) -> Iterator[Location]:
        yield self.root
        yield from self.auxiliary

    def resolve(self, path: str) -> ObjectName:
        """Return bucket and key for a path as in the Delta log (Delta protocol, "Add File and Remove File").

        Raises UnsupportedOperation for an object outside the root and the auxiliary locations, and TableUnreadable for
        an invalid path.
        """
        absolute = _ABSOLUTE.match(path)
        if absolute is None:
            if path.startswith("/"):
                raise self._outside_error(path, "is an absolute path without a bucket")
            name = ObjectName(self.root.bucket, _normalize(self.root.key_prefix + _decode(path), path))
        else:
            if absolute[1].lower() not in S3_SCHEMES:
                raise self._outside_error(path, f"is a '{absolute[1].lower()}:' URI, which recipients cannot read")
            bucket, _, key = path[absolute.end() :].lstrip("/").partition("/")
            name = ObjectName(bucket, _normalize(_decode(key), path))
        if not any(location.holds(name) for location in self):
            raise self._outside_error(path, "is outside the table")
        return name

    def object_name(self, path: str) -> ObjectName:
        """Return bucket and key for a `path` of TableStore: a key relative to the root, or an absolute URI."""
        if _ABSOLUTE.match(path):
            return self.resolve(path)
        name = ObjectName(self.root.bucket, _normalize(self.root.key_prefix + path, path))
        if not self.root.holds(name):
            raise self._outside_error(path, "is outside the table")
        return name

    def encoded(self, path: str) -> bytes | None:
        """Convert a path in the Delta log to a percent-encoded key relative to the root; None if outside the root.

        Raises the same errors as `resolve`.
        """
        if _SIMPLE_PATH.fullmatch(path):
            return path.replace("=", "%3D").encode()
        name = self.resolve(path)
        if not self.root.holds(name):
            return None
        return encode_key(name.key[len(self.root.key_prefix) :]).encode()

    def relative(self, paths: "pa.StringArray") -> list[bytes] | None:
        """Convert paths in the Delta log (no nulls) to percent-encoded keys relative to the root.

        Absolute paths in the root become relative. Returns None if a path is in an auxiliary location: if so, the
        caller must use `resolve` for each path. Raises the same errors as `resolve`.
        """
        import pyarrow as pa

        from deltaic import compute as pc

        if not len(paths):
            return []
        if pc.all(pc.match_substring_regex(paths, _SIMPLE)).as_py():
            # Joining in Arrow and splitting in Python is 4 times as fast as `to_pylist`. These paths have no newlines.
            encoded = pc.replace_substring(paths, "=", "%3D")
            joined = pc.binary_join(pa.ListArray.from_arrays([0, len(encoded)], encoded), "\n")
            return joined[0].as_buffer().to_pybytes().split(b"\n")  # type: ignore[no-any-return]
        return self._encode_each(paths.to_pylist())

    def uris(self, paths: "pa.StringArray") -> list[str]:
        """Convert paths in the Delta log (no nulls) to `s3://bucket/key`, without percent-encoding; see `resolve`."""
        import pyarrow as pa

        from deltaic import compute as pc

        base = f"s3://{self.root.bucket}/{self.root.key_prefix}"
        if len(paths) and pc.all(pc.match_substring_regex(paths, _SIMPLE)).as_py():
            # As in `relative`; the base has no newline either.
            joined = pc.binary_join(pa.ListArray.from_arrays([0, len(paths)], paths), f"\n{base}")
            return f"{base}{joined[0].as_py()}".split("\n")
        return ["s3://{}/{}".format(*self.resolve(path)) for path in paths.to_pylist()]

    def _encode_each(self, paths: Sequence[str]) -> list[bytes] | None:
        # Paths share few folders (partitions), so each folder is decoded and encoded once, and simple file names never.
        folders: dict[str, bytes | None] = {}
        answer: list[bytes] = []
        for path in paths:
            cut = path.rfind("/") + 1
            folder, file = path[:cut], path[cut:]
            try:
                encoded = folders[folder]
            except KeyError:
                encoded = folders[folder] = _encode_folder(folder)
            if encoded is not None and _SIMPLE_FILE.fullmatch(file):
                answer.append(encoded + file.replace("=", "%3D").encode())
                continue
            resolved = self.encoded(path)
            if resolved is None:
                return None
            answer.append(resolved)
        return answer

    def _outside_error(self, path: str, reason: str) -> UnsupportedOperation:
        return UnsupportedOperation(
            f"the table's log has a file whose path {reason}. The table's provider can add the file's folder to the "
            "table's auxiliary locations, or rewrite the table in its own folder",
            f"{_shorten(path)} is neither in {self.root.uri} nor in an auxiliary location (--auxiliary s3://bucket/folder)",
        )


def _encode_folder(folder: str) -> bytes | None:
    """Percent-encode a relative folder with its final slash; None if the caller must resolve each of its files."""
    if not folder:
        return b""
    if folder.startswith("/") or _ABSOLUTE.match(folder):
        return None
    decoded = _decode(folder)
    if any(segment in _RESOLVED_SEGMENTS for segment in decoded[:-1].split("/")):
        return None
    return encode_key(decoded).encode()


def _decode(path: str) -> str:
    if "%" not in path:
        return path
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise TableUnreadable("the table's log has a file path that is not valid UTF-8", _shorten(path)) from error


def _normalize(key: str, path: str) -> str:
    """Normalize a key as Hadoop's `Path` does; raise UnsupportedOperation if `..` leaves the bucket."""
    normalized = normalize_path(key)
    if normalized is None:
        raise UnsupportedOperation("the table's log has a file whose path is outside its bucket", _shorten(path))
    if not normalized:
        raise TableUnreadable("the table's log has a file with an empty path", _shorten(path))
    return normalized


def normalize_path(path: str) -> str | None:
    """Resolve `.` and `..` in a path and merge repeated slashes; return None if `..` leaves the bucket."""
    if _RESOLVED_SEGMENTS.isdisjoint(segments := path.split("/")):
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


def _shorten(path: str) -> str:
    return repr(path if len(path) <= 300 else path[:300] + "...")  # noqa: PLR2004 -- enough to find the path in a log
