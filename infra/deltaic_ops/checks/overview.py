"""Collect the state of a catalog for `deltaic status` and the console's start page: all parts in parallel."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

from deltaic.catalog.admin.catalog_admin import CatalogAdmin
from deltaic.errors import DeltaicError
from deltaic.scheduled.expirations import scan_expirations

from deltaic_ops.inspection.findings import Finding

DAYS: Final = 30
"""The overview shows what expires within this number of days."""

READS: Final = 5
"""Maximum number of last reads in the overview."""

_PARALLEL: Final = 16


def read_overview(
    admin: CatalogAdmin, usage: str | None, environment: Mapping[str, str], **others: Callable[[], Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read `counts`, `findings`, `expires`, `last read` and other parts; return results and error messages by part.

    `usage` is the location of the usage table; None for no last reads. Findings are those of `deltaic doctor` that need
    only the catalog, without passed checks. Results that cannot be read are None. The error of counts and findings is
    `catalog`.
    """
    from deltaic_ops.usage.usage_report import last_reads

    now, errors = datetime.now(UTC), dict[str, str]()
    parts: dict[str, Callable[[], Any]] = {
        "catalog": lambda: _read_catalog(admin),
        "expires": lambda: scan_expirations(admin, now, now + timedelta(days=DAYS)),
        "last read": lambda: last_reads(usage, environment, READS) if usage is not None else [],
        **others,
    }

    def read(part: str) -> Any:
        try:
            return parts[part]()
        except DeltaicError as error:
            errors[part] = error.message

    with ThreadPoolExecutor(len(parts)) as pool:
        results = dict(zip(parts, pool.map(read, parts), strict=True))
    counts, findings = results.pop("catalog") or (None, None)
    return {**results, "counts": counts, "findings": findings}, errors


def _read_catalog(admin: CatalogAdmin) -> tuple[dict[str, int], list[Finding]]:
    from deltaic_ops.checks.doctor.freshness import check_follows, check_views

    shares = [share.name for share in admin.shares.list()]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        recipients = pool.submit(lambda: sum(1 for _ in admin.recipients.list()))
        views = pool.submit(lambda: list(admin.views.list_all()))
        tables = list(chain(*pool.map(lambda share: list(admin.tables.list(share)), shares)))
        follows = list(chain(*pool.map(lambda share: list(admin.follows.list(share)), shares)))
        findings = [*check_follows(follows, tables, None), *check_views(views.result())]
        counts = {"shares": len(shares), "tables": len(tables), "recipients": recipients.result()}
    return counts, [finding for finding in findings if not finding.holds]
