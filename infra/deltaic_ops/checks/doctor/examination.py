"""Run the checks of `deltaic doctor` in order: first the checks on which later checks depend."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
from delta_sharing_conformance.client import SharingClient, segments
from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.catalog.items import Table
from deltaic.errors import DeltaicError, NotFound

from deltaic_ops.checks.doctor import account, bucket_checks, code, durability, freshness, roles, table_reads
from deltaic_ops.checks.doctor.filters import check_filters, check_folder_access
from deltaic_ops.checks.doctor.folder_checks import check_assets
from deltaic_ops.checks.endpoint_checks import AGENT, TIMEOUT_SECONDS
from deltaic_ops.deploy.deployed_stack import DeployedStack, read_stack
from deltaic_ops.inspection.findings import NO_ENDPOINT, Finding, judge, not_tried
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
    region: str
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
        stack = _read_stack(target)
        yield _check_status(stack)
    except NotFound as error:
        if target.deployed:
            yield Finding("the stack is deployed", "failed", error.message, DEPLOY)
        else:
            yield not_tried("the stack is deployed", f"{error.message}: options or variables name the tables")
    except DeltaicError as refusal:
        yield Finding("the stack is deployed", "failed", refusal.message, DEPLOY)
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


def _read_stack(target: CheckContext) -> DeployedStack:
    """Read the stack; raises NotFound if it does not exist or is not a Deltaic stack."""
    stack = read_stack(target.client("cloudformation"), target.stack)
    if not stack.is_deltaic:
        raise NotFound(f"stack '{stack.name}' is not a Deltaic stack")
    return stack


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
    admin = target.admin
    tables_by_share = {share.name: list(admin.tables.list(share.name)) for share in admin.shares.list()}
    yield from freshness.check_follows(
        (follow for share in tables_by_share for follow in admin.follows.list(share)),
        (table for tables in tables_by_share.values() for table in tables),
        stack.parameters if stack else None,
    )
    listed = {share: [table for table in tables if not table.unlisted] for share, tables in tables_by_share.items()}
    folders = [folder for share in listed for folder in admin.folders(share)]
    readable_by_delta = {
        share: [table for table in tables if table.format == "delta" or "url" in table.access_modes]
        for share, tables in listed.items()
    }
    iceberg = [table for tables in listed.values() for table in tables if table.format == "iceberg"]
    buckets = bucket_checks.buckets_of([*(table for tables in listed.values() for table in tables), *folders])
    if stack:
        role = stack.outputs.get("SigningRoleArn", "")
        yield from roles.check_denials(target.client("iam"), role, admin.storages.list(), admin.recipients.list())
        yield from roles.check_storage_roles(admin.storages.list(), stack)
        for bucket, table in buckets.items():
            yield bucket_checks.check_permission(bucket, table, stack.list_parameter("DataBuckets"))
        yield from bucket_checks.check_table_buckets(iceberg, stack.list_parameter("TableBuckets"))
    for bucket in buckets:
        yield from bucket_checks.check_region(target.client("s3"), bucket, target.region)
        if target.endpoint and (stack is None or stack.parameters.get("Explore", "enabled") == "enabled"):
            yield from bucket_checks.check_cors(target.client("s3"), bucket, target.endpoint)
    views = [view for share in listed for view in admin.views.list(share)]
    yield from freshness.check_views(views)
    unrefreshed = {view.table_id for view in views if view.refreshed_at is None}
    readable = [[table for table in tables if table.id not in unrefreshed] for tables in readable_by_delta.values()]
    sample = [admin.tables.get(*only)] if only else [tables[0] for tables in readable if tables]
    schemas = table_reads.read_schemas([table for tables in readable for table in tables], target.schemas.read)
    # check_assets also reads Iceberg tables.
    iceberg_titles = {table.title for table in iceberg}
    yield from table_reads.check_logs({name: schema for name, schema in schemas.items() if name not in iceberg_titles})
    yield from check_assets(folders, iceberg, target.schemas)
    yield from check_folder_access(admin.tables.overlaps.conflicts(), admin.tables.overlaps.incomparable())
    recipients = {recipient.id: recipient for recipient in admin.recipients.list()}
    for share, tables in readable_by_delta.items():
        yield from check_filters(tables, [*admin.grants.of_share(share)], recipients, schemas)
    if not sample:
        yield not_tried("reads a shared table", "no share has tables")
    elif not target.endpoint:
        yield not_tried("reads a shared table", NO_ENDPOINT)
    else:
        yield from _read_tables(target, sample, stack.parameters if stack else {})


def _read_tables(target: CheckContext, tables: list[Table], parameters: Any) -> Iterator[Finding]:
    bearers: dict[str, str] = {}
    with ExitStack() as exits, httpx.Client(timeout=TIMEOUT_SECONDS) as http:
        for table in tables:
            name = table.title
            bearer = _temporary_token(target.admin, table.share, bearers, exits)
            if bearer is None:
                yield not_tried(f"reads {name}", "its share has no recipient without address restrictions")
                continue
            client = SharingClient(http, target.endpoint, bearer, AGENT)
            path = segments(table.share, table.schema_name, table.name)
            try:
                yield from table_reads.check_table_read(client, path, name, parameters)
            except httpx.HTTPError as error:
                reason = f"{type(error).__name__} at {target.endpoint}"
                yield Finding(f"reads {name}", "failed", reason, "check that this endpoint is running (--endpoint)")
                return


def _temporary_token(admin: CatalogAdmin, share: str, bearers: dict[str, str], exits: ExitStack) -> str | None:
    """Return a token of any suitable recipient of a share, from `bearers` or a new temporary one; None without any.

    Skips recipients whose access has expired or is restricted to IP addresses: their requests would be rejected.
    """
    now = datetime.now(UTC)
    holders = [grant.recipient for grant in admin.grants.of_share(share) if not grant.has_ended(now)]
    for holder in sorted(holders, key=lambda name: name not in bearers):
        try:
            if holder not in bearers:
                recipient = admin.recipients.get(holder)
                if recipient.has_ended(now) or recipient.addresses:
                    continue
                bearers[holder] = exits.enter_context(admin.tokens.for_checks(recipient))
        except NotFound:
            continue
        return bearers[holder]
    return None
