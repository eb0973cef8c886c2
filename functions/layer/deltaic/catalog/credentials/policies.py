"""The policies on the JWTs of issuers, as the authorizer reads them: one key range names all of an issuer."""

from collections.abc import Sequence

from deltaic.catalog import keys
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Policy


class Policies:
    """The policies by their issuer: Query on one table, nothing else."""

    def __init__(self, table: str, dynamo: Dynamo) -> None:
        self._table = table
        self._dynamo = dynamo.for_recipients()

    def of_issuer(self, issuer: str) -> Sequence[Policy]:
        """Return an issuer's policies by strongly consistent reads, none for a stranger.

        So whoever removes a policy, or a recipient, ends its JWTs with the next read.
        """
        return [Policy.read(item) for item in self._dynamo.query(self._table, keys.policies(issuer))]
