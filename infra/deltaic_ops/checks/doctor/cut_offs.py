"""Whether who is cut off by a mark is denied by the roles that sign, and nobody else is."""

from collections.abc import Iterable, Iterator
from typing import Any

from deltaic.catalog.items import Recipient, Storage
from deltaic.errors import DeltaicError
from deltaic.storage.sessions import tag_value

from deltaic_ops.inspection.findings import Finding, advise, not_asked
from deltaic_ops.rights.cut_off import Denials, roles_of


def denied(
    iam: Any, signing_role_arn: str, storages: Iterable[Storage], recipients: Iterable[Recipient]
) -> Iterator[Finding]:
    """Compare the marks with the Deny of each role; of a recipient that is gone a Deny may stay."""
    known = {tag_value(one.id): one for one in recipients}
    marked = {tag for tag, one in known.items() if one.cut_off_at is not None}
    for role in roles_of(signing_role_arn, storages)[0]:
        check = f"who is cut off is denied by {role.rsplit('/', 1)[-1]}"
        try:
            held = Denials(iam, role).denied() & known.keys()
        except DeltaicError as failure:
            yield not_asked(check, failure.message)
            continue
        wrong = [f"deltaic recipient cut-off {known[tag].name}" for tag in sorted(marked - held)]
        wrong += [f"deltaic recipient restore {known[tag].name}" for tag in sorted(held - marked)]
        told = f"{len(held)} denied, {len(marked)} cut off"
        yield advise(check, told, "; ".join(wrong), holds=not wrong)
