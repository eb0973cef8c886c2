"""Run the checks of `deltaic doctor` in order: first the checks on which later checks depend."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
from delta_sharing_conformance.client import SharingClient, segments
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Recipient, Table
from deltaic.errors import DeltaicError, NotFound

from deltaic_ops.checks.doctor import account, bucket_checks, code, durability, freshness, roles, table_reads
from deltaic_ops.checks.doctor.filters import check_filters, check_folder_access
from deltaic_ops.checks.doctor.folder_checks import check_assets
from deltaic_ops.checks.endpoint_checks import AGENT, TIMEOUT_SECONDS
from deltaic_ops.deploy.deployed_stack import DeployedStack, read_stack
from deltaic_ops.inspection.findings import Finding, judge, not_tried
from deltaic_ops.inspection.shared_schema import SchemaReader
from deltaic_ops.local.aws_variables import THIS_MACHINE

TableName = tuple[str, str, str]
STABLE_STATUSES = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
DEPLOY = "check stack (--stack), account and region, or deploy it"


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Clients and settings for checks of a stack, its tables and its endpoint."""

    client: Callable[[str], Any]
    admin: CatalogAdmin
    schemas: SchemaReader
    """Reads shared tables and folders with the operator's credentials."""

    stack: str
    catalog_table: str
    tokens_table: str
    endpoint: str
    """URL of the sharing server; empty if unknown."""

    deployed: bool
    """Whether a missing stack is a failure; a local AWS emulator may have none."""


def examine(target: CheckContext, only: TableName | None = None) -> Iterator[Finding]:
    """Yield findings of all checks; read the first table of each share, or only `only`, over the endpoint.

    Changes nothing, except that it creates temporary tokens of recipients, which expire within 15 minutes and are
    deleted at the end.
    """
    yield account.check_clock(target.client("sts").meta.endpoint_url)
    stack = None
    try:
        stack = read_stack(target.client("cloudformation"), target.stack)
        yield _check_status(stack)
    except DeltaicError as error:
        if isinstance(error, NotFound) and not target.deployed:
            yield not_tried("the stack is deployed", f"{error.message}: options or variables name the tables")
        else:
            yield Finding("the stack is deployed", "failed", error.message, DEPLOY)
    parameters = stack.parameters if stack else {}
    dynamodb = target.client("dynamodb")
    is_local = stack is None and urlsplit(dynamodb.meta.endpoint_url).hostname in THIS_MACHINE
    yield from durability.check_table(dynamodb, target.catalog_table, "shares", parameters, is_local=is_local)
    yield from durability.check_table(dynamodb, target.tokens_table, "tokens", parameters, is_local=is_local)
    if stack:
        yield from _check_stack(target, stack)
    try:
        yield from _check_catalog(target, stack, only)
    except DeltaicError as refusal:
        yield Finding("reads the catalog", "failed", refusal.message, "check both DynamoDB tables (see above)")


def _check_status(stack: DeployedStack) -> Finding:
    """Check that the last deployment succeeded; a rollback is a warning, because the previous version runs."""
    return judge(
        "the stack is deployed",
        f"{stack.name}: {stack.status}",
        f"fix the cause, then deploy again: aws cloudformation describe-stack-events --stack-name {stack.name}",
        holds=stack.status in STABLE_STATUSES,
        otherwise="warning" if stack.status == "UPDATE_ROLLBACK_COMPLETE" else "failed",
    )


def _check_stack(target: CheckContext, stack: DeployedStack) -> Iterator[Finding]:
    yield from durability.check_token_key(target.client("secretsmanager"), stack.outputs.get("TokenKeySecret", ""))
    yield from roles.check_signing_role(target.client("iam"), stack)
    yield from account.check_concurrency(target.client("lambda"), stack.parameters)
    yield from account.check_gateway(target.client("apigateway"), stack.parameters)
    yield from code.check_code(target.client("s3"), stack)


def _check_catalog(target: CheckContext, stack: DeployedStack | None, only: TableName | None) -> Iterator[Finding]:
    admin, shares = target.admin, [share.name for share in target.admin.shares.list()]
    parameters = stack.parameters if stack else {}
    tables = [table for share in shares for table in admin.tables.list(share)]
    follows = [follow for share in shares for follow in admin.follows.list(share)]
    yield from freshness.check_follows(follows, tables, stack.parameters if stack else None)
    tables = [table for table in tables if not table.unlisted]
    folders = [folder for share in shares for folder in admin.folders(share)]
    iceberg = [table for table in tables if table.format == "iceberg"]
    buckets = bucket_checks.buckets_of([*tables, *folders])
    recipients = {recipient.id: recipient for recipient in admin.recipients.list()}
    if stack:
        role = stack.outputs.get("SigningRoleArn", "")
        yield from roles.check_denials(target.client("iam"), role, admin.storages.list(), recipients.values())
        yield from roles.check_storage_roles(admin.storages.list(), stack)
        for bucket, table in buckets.items():
            yield bucket_checks.check_permission(bucket, table, stack.list_parameter("DataBuckets"))
        yield from bucket_checks.check_table_buckets(iceberg, stack.list_parameter("TableBuckets"))
    for bucket in buckets:
        yield from bucket_checks.check_region(target.client("s3"), bucket)
        if target.endpoint and parameters.get("Explore", "enabled") == "enabled":
            yield from bucket_checks.check_cors(target.client("s3"), bucket, target.endpoint)
    views = [view for share in shares for view in admin.views.list(share)]
    yield from freshness.check_views(views)
    unrefreshed = {view.table_id for view in views if view.refreshed_at is None}
    queried = [table for table in tables if table.client_modes]
    readable = [table for table in queried if table.id not in unrefreshed]
    schemas = table_reads.read_schemas(readable, target.schemas.read)
    # check_assets also reads Iceberg tables.
    yield from table_reads.check_logs([table.title for table in readable if table.format == "delta"], schemas)
    yield from check_assets(folders, iceberg, target.schemas)
    yield from check_folder_access(admin.tables.overlaps.conflicts(), admin.tables.overlaps.incomparable())
    for share in shares:
        in_share = [table for table in queried if table.share == share]
        yield from check_filters(in_share, [*admin.grants.of_share(share)], recipients, schemas)
    first = {table.share: table for table in reversed(readable)}
    sample = [admin.tables.get(*only)] if only else [first[share] for share in shares if share in first]
    if not sample:
        yield not_tried("reads a shared table", "no share has tables")
    elif not target.endpoint:
        reason = "the endpoint is unknown: start `deltaic serve`, or set --endpoint or --stack"
        yield not_tried("reads a shared table", reason)
    else:
        yield from _read_tables(target, sample, parameters)


def _read_tables(target: CheckContext, tables: list[Table], parameters: Any) -> Iterator[Finding]:
    for table in tables:
        name, reader = table.title, next(_readers(target.admin, table.share), None)
        if reader is None:
            yield not_tried(f"reads {name}", "its share has no recipient without address restrictions")
            continue
        path = segments(table.share, table.schema_name, table.name)
        try:
            with target.admin.tokens.for_checks(reader) as bearer, httpx.Client(timeout=TIMEOUT_SECONDS) as http:
                client = SharingClient(http, target.endpoint, bearer, AGENT)
                yield from table_reads.check_table_read(client, path, name, parameters)
        except NotFound:
            yield not_tried(f"reads {name}", f"recipient '{reader.name}' was deleted in the meantime")
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__} at {target.endpoint}"
            yield Finding(f"reads {name}", "failed", reason, "check that this endpoint is running (--endpoint)")
            return


def _readers(admin: CatalogAdmin, share: str) -> Iterator[Recipient]:
    """Yield the recipients of a share, without those whose access has expired or is restricted to IP addresses."""
    now = datetime.now(UTC)
    for grant in admin.grants.of_share(share):
        with suppress(NotFound):  # deleted in the meantime
            recipient = admin.recipients.get(grant.recipient)
            if not (grant.has_ended(now) or recipient.has_ended(now) or recipient.addresses):
                yield recipient
