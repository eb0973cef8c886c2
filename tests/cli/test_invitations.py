"""Commands for invitations: a link is shown once, listed and canceled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.credentials.tokens import TokenStore


def test_a_link_is_shown_once_and_listed_without_its_secret(filled: Deltaic, admin: CatalogAdmin) -> None:
    invitation = filled.json("recipient invite alice --expires 2h --token-expires 12h --note laptop")
    assert invitation["link"].startswith("https://shares.test/delta-sharing/activate/")
    assert (invitation["tokenSeconds"], invitation["comment"], invitation["recipient"]) == (43_200, "laptop", "alice")
    ends = datetime.fromisoformat(invitation["expiresAt"])
    assert timedelta(hours=1.9) < ends - datetime.now(UTC) <= timedelta(hours=2)
    listing = filled.done("recipient invites alice")
    assert invitation["id"] in listing
    assert invitation["link"].rpartition("/")[2] not in listing
    assert [link["id"] for link in filled.json("recipient invites")] == [invitation["id"]]
    assert admin.tokens.list(admin.recipients.get("alice").id) == []


def test_a_link_that_is_of_no_use_causes_a_warning(filled: Deltaic, admin: CatalogAdmin) -> None:
    assert "warnings" not in filled.json("recipient invite alice")
    for _ in range(2):
        admin.tokens.create(admin.recipients.get("alice"))
    [warning] = filled.json("recipient invite alice")["warnings"]
    assert "'alice' has 2 valid tokens, so the link cannot create another" in warning
    assert "warnings" not in filled.json("token rotate alice --link --overlap 0")
    admin.recipients.create("bob")
    shown = filled("recipient invite bob")
    assert "warning: 'bob' has no share to read; next: deltaic grant create bob <share>\n" in shown.stderr
    [link] = shown.stdout.splitlines()  # so that scripts can use it
    assert link.startswith("https://shares.test/delta-sharing/activate/")


def test_invites_lists_links_whose_token_was_never_used(
    filled: Deltaic, admin: CatalogAdmin, tokens: TokenStore
) -> None:
    link = filled.json("recipient invite alice")["link"]
    issued = admin.invitations.use(link.rpartition("/")[2])
    for command in ("recipient invites alice", "recipient invites"):
        assert "used, token never used" in filled.done(command)
    tokens.authenticate(issued.secret)
    assert "token never used" not in filled.done("recipient invites alice")
    assert "salt" not in filled.json("token list alice")[0]


def test_a_canceled_link_stays_canceled(filled: Deltaic) -> None:
    invitation = filled.json("recipient invite alice")
    assert filled.json(f"recipient invite alice --cancel {invitation['id']}")["cancelled"] is True
    assert "cancelled" in filled.done("recipient invites alice")
    refused = filled("recipient invite alice --cancel nothing")
    assert refused.exit_code == 1
    assert "recipient invites alice" in refused.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("recipient invite nobody", "nobody"),
        ("recipient invite alice --expires 31d", "30 days"),
        ("recipient invite alice --expires 10s", "choose 1 minute to 30 days"),
        ("recipient invite alice --token-expires 400d", "365 days"),
        ("recipient invite alice --endpoint nonsense", "nonsense"),
        ("token create alice --link --profile alice.share", "use --link or --profile, not both"),
    ],
)
def test_an_invalid_invitation_is_refused_and_not_created(filled: Deltaic, line: str, message: str) -> None:
    refused = filled(line)
    assert refused.exit_code == 1
    assert message in refused.stderr
    assert filled.json("recipient invites") == []


def test_token_create_can_create_a_link_instead(filled: Deltaic) -> None:
    assert filled.json("token create alice --link --expires 1d")["tokenSeconds"] == 86_400
    rotated = filled.json("token rotate alice --link --overlap 2h")
    assert rotated["overlapSeconds"] == 7200
    assert filled.json("token list alice") == []


def test_deleting_a_recipient_deletes_its_links(filled: Deltaic) -> None:
    filled.done("recipient invite alice")
    filled.done("recipient delete alice --yes")
    filled.done("recipient create alice")
    assert filled.json("recipient invites") == []
