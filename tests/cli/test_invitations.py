"""Invitations by the command line: the link is shown once or written as a mail, listed without it, and ended."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin
    from deltaic.catalog.credentials.tokens import TokenStore


def test_a_link_is_shown_once_and_listed_without_its_secret(filled: Deltaic, admin: CatalogAdmin) -> None:
    made = filled.json("recipient invite alice --expires 2h --token-expires 12h --note laptop")
    assert made["link"].startswith("https://shares.test/delta-sharing/activate/")
    assert (made["tokenSeconds"], made["comment"], made["recipient"]) == (43_200, "laptop", "alice")
    ends = datetime.fromisoformat(made["expiresAt"])
    assert timedelta(hours=1.9) < ends - datetime.now(UTC) <= timedelta(hours=2)
    listed = filled.done("recipient invites alice")
    assert made["id"] in listed
    assert made["link"].rpartition("/")[2] not in listed
    assert [one["id"] for one in filled.json("recipient invites")] == [made["id"]]
    assert admin.tokens.list(admin.recipients.get("alice").id) == []


def test_a_mail_is_a_draft_with_the_link_for_one_pair_of_eyes(filled: Deltaic) -> None:
    file = Path("alice.eml")
    shown = filled.done(f"recipient invite alice --mail {file}")
    assert "/activate/" not in shown
    mail = message_from_string(file.read_text(), policy=policy.default)
    body = mail.get_content()
    assert "https://shares.test/delta-sharing/activate/" in body
    assert (mail["X-Unsent"], mail["To"]) == ("1", None)
    assert file.stat().st_mode & 0o777 == 0o600
    refused = filled(f"recipient invite alice --mail {file}")
    assert (refused.exit_code, len(filled.json("recipient invites alice"))) == (1, 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("a\N{LINE SEPARATOR}Bcc:bob", r"a\u2028Bcc:bob", id="end-of-line"),
        pytest.param("a\x85Bcc:bob", r"a\u0085Bcc:bob", id="next-line"),
        pytest.param("\N{RIGHT-TO-LEFT OVERRIDE}ecila", r"\u202eecila", id="direction"),
        pytest.param("\x9b31mred", r"\u009b31mred", id="terminal"),
        pytest.param("m\u00fcller", "m\u00fcller", id="letters"),
    ],
)
def test_a_mail_takes_a_name_as_text(deltaic: Deltaic, admin: CatalogAdmin, name: str, said: str) -> None:
    admin.recipients.create(name)
    shown = deltaic.done(f"recipient invite {shlex.quote(name)} --mail it.eml")
    mail = message_from_string(Path("it.eml").read_text(), policy=policy.default)
    assert mail["Subject"] == f"Data shared with {said}"
    assert f"Data is shared with {said}." in mail.get_content()
    assert set(mail.keys()) == {"Subject", "X-Unsent", "Content-Type", "Content-Transfer-Encoding", "MIME-Version"}
    assert f"'{said}'" in shown


def test_a_link_whose_token_was_never_used_is_listed_as_such(
    filled: Deltaic, admin: CatalogAdmin, tokens: TokenStore
) -> None:
    link = filled.json("recipient invite alice")["link"]
    issued = admin.invitations.use(link.rpartition("/")[2])
    for listed in ("recipient invites alice", "recipient invites"):
        assert "used, token never used" in filled.done(listed)
    tokens.authenticate(issued.secret)
    assert "token never used" not in filled.done("recipient invites alice")
    assert "salt" not in filled.json("token list alice")[0]


def test_a_link_is_cancelled_once_and_for_all(filled: Deltaic) -> None:
    made = filled.json("recipient invite alice")
    assert filled.json(f"recipient invite alice --cancel {made['id']}")["cancelled"] is True
    assert "cancelled" in filled.done("recipient invites alice")
    refused = filled("recipient invite alice --cancel nothing")
    assert refused.exit_code == 1
    assert "recipient invites alice" in refused.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("recipient invite nobody", "nobody"),
        ("recipient invite alice --expires 31d", "30 days"),
        ("recipient invite alice --expires 10s", "a minute"),
        ("recipient invite alice --token-expires 400d", "365 days"),
        ("recipient invite alice --endpoint nonsense", "nonsense"),
        ("token create alice --link --profile alice.share", "use --link or --profile, not both"),
        ("recipient invite alice --mail nowhere/alice.eml", "nowhere"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(filled: Deltaic, line: str, said: str) -> None:
    refused = filled(line)
    assert refused.exit_code == 1
    assert said in refused.stderr
    assert filled.json("recipient invites") == []


def test_a_token_command_makes_a_link_instead(filled: Deltaic) -> None:
    assert filled.json("token create alice --link --expires 1d")["tokenSeconds"] == 86_400
    rotated = filled.json("token rotate alice --link --overlap 2h")
    assert rotated["overlapSeconds"] == 7200
    assert filled.json("token list alice") == []


def test_a_recipient_that_is_deleted_takes_its_links_along(filled: Deltaic) -> None:
    filled.done("recipient invite alice")
    filled.done("recipient delete alice --yes")
    filled.done("recipient create alice")
    assert filled.json("recipient invites") == []
