"""Check the buckets of shared tables and folders: permissions of the stack, region, CORS rules."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deltaic.catalog.asset_items import Folder
from deltaic.catalog.items import Table
from deltaic.storage.locations import Location
from deltaic.storage.table_catalogs import TABLE_BUCKET

from deltaic_ops.inspection.findings import Finding, advise, ask, judge
from deltaic_ops.local.bucket_cors import allows_origin, origin_of, rules_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def buckets_of(shared: Iterable[Table | Folder]) -> dict[str, str]:
    """Return the buckets of entries on the stack's S3, each with the name of one entry in it."""
    return {
        Location.parse(uri).bucket: entry.title
        for entry in shared
        if not entry.storage and not _table_bucket(entry)
        for uri in (entry.location, *(entry.auxiliary_locations if isinstance(entry, Table) else ()))
    }


def check_table_buckets(tables: Iterable[Table], arns: Sequence[str]) -> Iterator[Finding]:
    """Check that the stack's parameter TableBuckets (`arns`) includes the S3 Tables buckets of shared tables."""
    for bucket, title in {_table_bucket(table): table.title for table in tables if _table_bucket(table)}.items():
        yield judge(
            f"can read table bucket {bucket.rpartition('/')[2]}",
            "in TableBuckets" if bucket in arns else "not in TableBuckets",
            f"deploy with TableBuckets={','.join([*arns, bucket])}, or delete {title}",
            holds=bucket in arns,
        )


def _table_bucket(entry: Table | Folder) -> str:
    """Return the ARN of a table's bucket in S3 Tables; empty for other entries."""
    name = entry.metadata_location if isinstance(entry, Table) else ""
    return name.removeprefix(TABLE_BUCKET).rsplit("/", 2)[0] if name.startswith(TABLE_BUCKET) else ""


def check_permission(bucket: str, table: str, arns: Sequence[str]) -> Finding:
    """Check that the stack's parameter DataBuckets (`arns`, which may contain `*`) includes a bucket."""
    arn = f"arn:aws:s3:::{bucket}"
    allowed = [f"arn:aws:s3:::{pattern.rpartition(':')[2]}" for pattern in arns]  # all AWS partitions, such as aws-cn
    return judge(
        f"can read bucket {bucket}",
        "in DataBuckets" if (holds := any(fnmatchcase(arn, pattern) for pattern in allowed)) else "not in DataBuckets",
        f"deploy with DataBuckets={','.join([*arns, arn])}, or move {table} away",
        holds=holds,
    )


def check_region(client: "S3Client", bucket: str) -> Iterator[Finding]:
    """Check that a bucket exists, in the client's region, for which the stack signs URLs."""
    check = f"finds bucket {bucket} in the stack's region"
    remedy = "deltaic storage create NAME --region {}; then for its tables: deltaic table update ... --storage NAME"

    def read_region() -> Finding:
        constraint: str | None = client.get_bucket_location(Bucket=bucket)["LocationConstraint"]
        actual = {None: "us-east-1", "EU": "eu-west-1"}.get(constraint, str(constraint))
        return judge(check, actual, remedy.format(actual), holds=actual == client.meta.region_name)

    yield from ask(check, f"check the name of bucket {bucket}, and its account", read_region)


def check_cors(client: "S3Client", bucket: str, endpoint: str) -> Iterator[Finding]:
    """Check that a bucket's CORS rules let the page /explore read it; other clients need no CORS rules."""
    check = f"the page /explore can read bucket {bucket}"
    remedy = f"deltaic storage cors {bucket} --set"

    def read_rules() -> Finding:
        origin = origin_of(endpoint)
        rules = rules_of(client, bucket)
        holds = allows_origin(rules, origin)
        return advise(check, f"{len(rules)} CORS rules {'' if holds else 'do not '}allow {origin}", remedy, holds=holds)

    yield from ask(check, remedy, read_rules)
