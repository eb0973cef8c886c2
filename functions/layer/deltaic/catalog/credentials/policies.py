"""Read policies on JWTs for the authorizer, with one key range per issuer."""

from collections.abc import Sequence

from deltaic.catalog import keys
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Policy


class Policies:
    """Read policies, only with Query on one table."""

    def __init__(self, table: str, dynamo: Dynamo) -> None:
        self._table = table
        self._dynamo = dynamo.for_recipients()

    def of_issuer(self, issuer: str) -> Sequence[Policy]:
        """Return an issuer's policies by strongly consistent reads, none for an unknown issuer.

        So after a policy or a recipient is removed, its JWTs are refused from the next read on.
        """
        return [Policy.read(item) for item in self._dynamo.query(self._table, keys.policies(issuer))]
