"""Where shared tables lie: buckets that the stack may read, in the region for which it signs."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deltaic.catalog.asset_items import Folder
from deltaic.catalog.items import Table
from deltaic.storage.locations import Location

from deltaic_ops.inspection.findings import Finding, advise, ask, judge
from deltaic_ops.local.bucket_cors import lets, origin_of, rules_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def buckets_of(shared: Iterable[Table | Folder]) -> dict[str, str]:
    """Return the buckets of what no storage holds, each with the name of one that lies there."""
    return {
        Location.parse(uri).bucket: one.title
        for one in shared
        if not one.storage
        for uri in (one.location, *(one.auxiliary_locations if isinstance(one, Table) else ()))
    }


def may_read(bucket: str, table: str, arns: Sequence[str]) -> Finding:
    """Check that a bucket is among those that the stack was deployed with (`arns`, which may hold `*`)."""
    arn = f"arn:aws:s3:::{bucket}"
    allowed = [f"arn:aws:s3:::{one.rpartition(':')[2]}" for one in arns]  # whatever their partition is called
    return judge(
        f"may read the bucket {bucket}",
        "in DataBuckets" if (holds := any(fnmatchcase(arn, one) for one in allowed)) else "not in DataBuckets",
        f"deploy with DataBuckets={','.join([*arns, arn])}, or move {table} away",
        holds=holds,
    )


def region(client: "S3Client", bucket: str, expected: str) -> Iterator[Finding]:
    """Check that a bucket is there, and in the region for which the stack signs."""
    check = f"finds the bucket {bucket} in its region"
    storage = "deltaic storage create NAME --region {}; then for its tables: deltaic table update ... --storage NAME"

    def look() -> Finding:
        said: str | None = client.get_bucket_location(Bucket=bucket)["LocationConstraint"]
        found = {None: "us-east-1", "EU": "eu-west-1"}.get(said, str(said))
        return judge(check, found, storage.format(found), holds=found == expected)

    yield from ask(check, f"the name of the bucket {bucket}, and whose it is", look)


def pages(client: "S3Client", bucket: str, endpoint: str) -> Iterator[Finding]:
    """Check that the page at /explore may read a bucket's objects; other clients need no such rule."""
    check = f"lets the page at /explore read {bucket}"
    remedy = f"deltaic storage cors {bucket} --set"

    def look() -> Finding:
        origin = origin_of(endpoint)
        rules = rules_of(client, bucket)
        said = f"{len(rules)} CORS rules, {origin} is {'' if (holds := lets(rules, origin)) else 'not '}let in"
        return advise(check, said, remedy, holds=holds)

    yield from ask(check, remedy, look)
