"""Decides who holds which share: each grant lies with the recipient and with the share, or with neither."""

from collections.abc import Iterator

from deltaic.catalog import keys
from deltaic.catalog.aws_errors import ConditionFailed
from deltaic.catalog.items import Grant, Recipient, Share, now
from deltaic.catalog.records import Records
from deltaic.catalog.writes import ABSENT, check, delete, put_new
from deltaic.errors import AlreadyExists, NotFound


class GrantAdmin(Records):
    """Makes, lists and revokes grants."""

    def create_grant(self, recipient: str, share: str) -> Grant:
        """Grant a share to a recipient; raises NotFound for either, AlreadyExists for a grant that is there."""
        to = self.get_recipient(recipient)
        what = self.get_share(share)
        grant = Grant(recipient=to.name, recipient_id=to.id, share=what.name, share_id=what.id, created_at=now())
        try:
            self._dynamo.transact([
                check(self._catalog, keys.share(what.name), {"id": what.id, "state": ABSENT}),
                check(self._catalog, keys.recipient_id(to.id), {"state": ABSENT}),
                put_new(self._catalog, keys.grant(to.id, what.name), grant.attributes()),
                put_new(self._catalog, keys.grantee(what.name, to.id), grant.attributes()),
            ])  # fmt: skip
        except ConditionFailed as failed:
            if failed.index == 0:
                raise NotFound(f"share '{share}' not found") from None
            if failed.index == 1:
                raise NotFound(f"recipient '{recipient}' not found") from None
            raise AlreadyExists(f"'{to.name}' holds '{what.name}' already") from None
        return grant

    def get_grant(self, recipient: str, share: str) -> Grant:
        """Return one grant; raises NotFound."""
        return Grant.read(
            self._existing(keys.grant(self.get_recipient(recipient).id, share), _missing(recipient, share))
        )

    def revoke_grant(self, recipient: str, share: str) -> Grant:
        """Take a share away from a recipient: its next request is refused; raises NotFound."""
        grant = self.get_grant(recipient, share)
        if not self._remove_grant(grant):
            raise NotFound(_missing(recipient, share))
        return grant

    def grants_of_recipient(self, recipient: str) -> list[Grant]:
        """Return the grants of a recipient, in the order of the shares' names; raises NotFound."""
        return list(self._grants(keys.grants(self.get_recipient(recipient).id)))

    def grants_of_share(self, share: str) -> list[Grant]:
        """Return the grants of a share; raises NotFound."""
        return list(self._grants(keys.grantees(self.get_share(share).name)))

    def get_recipient(self, name: str) -> Recipient:
        """Return a recipient; raises NotFound."""
        return Recipient.read(self._present(keys.recipient(name), f"recipient '{name}' not found"))

    def get_share(self, name: str) -> Share:
        """Return a share; raises NotFound."""
        return Share.read(self._present(keys.share(name), f"share '{name}' not found"))

    def _grants(self, stretch: keys.Range) -> Iterator[Grant]:
        return (Grant.read(item) for item in self._all(stretch))

    def _remove_grant(self, grant: Grant) -> bool:
        """Delete both sides of a grant; False if they were gone."""
        try:
            self._dynamo.transact([
                delete(self._catalog, keys.grant(grant.recipient_id, grant.share), {"share_id": grant.share_id}),
                delete(self._catalog, keys.grantee(grant.share, grant.recipient_id), {"share_id": grant.share_id}),
            ])  # fmt: skip
        except ConditionFailed:
            return False
        return True


def _missing(recipient: str, share: str) -> str:
    return f"'{recipient}' does not hold '{share}': list the recipient's grants to see what it holds"
