"""Read federation policies by issuer, for the authorizer."""

from collections.abc import Sequence

from deltaic.catalog import keys
from deltaic.catalog.dynamo import Dynamo
from deltaic.catalog.items import Policy


class Policies:
    """Read federation policies, only with Query on the Tokens table."""

    def __init__(self, table: str, dynamo: Dynamo) -> None:
        self._table = table
        self._dynamo = dynamo.for_recipients()

    def of_issuer(self, issuer: str) -> Sequence[Policy]:
        """Return the policies for an issuer with strongly consistent reads; an empty list for an unknown issuer.

        So a removed policy, or a policy of a removed recipient, is not returned by the next call.
        """
        return [Policy.read(item) for item in self._dynamo.query(self._table, keys.policies(issuer))]
