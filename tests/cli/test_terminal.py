"""Names, comments and subjects with control characters are escaped by every command on recipients."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cli.conftest import Deltaic
    from deltaic.catalog.admin.catalog_admin import CatalogAdmin

NAME = "a\x9b2J\x9d0;title\x9c\N{RIGHT-TO-LEFT OVERRIDE}\N{LINE SEPARATOR}[red]x"
TEXT = f"{NAME}\x1b]52;c;ZXZpbA==\x07\x1b[2J\b\r"
STEERING = {*"\x07\b\r\x1b\x9b\x9c\x9d", "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{LINE SEPARATOR}"}
QUOTED = shlex.quote(NAME)


@pytest.fixture
def hostile(deltaic: Deltaic, admin: CatalogAdmin) -> Deltaic:
    """Return the command over a catalog in which everything that can be written is hostile."""
    recipient = admin.recipients.create(NAME, comment=TEXT, properties={TEXT: TEXT})
    admin.shares.create("sales", comment=TEXT)
    admin.grants.create(NAME, "sales")
    admin.tokens.create(recipient, comment=TEXT)
    admin.clients.create(recipient, comment=TEXT)
    admin.invitations.create(recipient, "https://shares.test/delta-sharing", comment=TEXT)
    admin.federation.create(
        recipient, "https://login.example.org", audience="deltaic", claim="sub", subject="[red]x", comment=TEXT
    )
    return deltaic


@pytest.mark.parametrize(
    "line",
    [
        "recipient list",
        f"recipient show {QUOTED}",
        f"recipient update {QUOTED} --requests-per-minute 5",
        f"recipient create {QUOTED}",
        f"recipient invite {QUOTED} --endpoint https://shares.test",
        f"recipient invite {QUOTED} --cancel 000000000000",
        f"recipient invites {QUOTED}",
        "recipient invites",
        f"recipient clients {QUOTED}",
        f"recipient revoke-client {QUOTED} dlc_0",
        "recipient policies",
        f"recipient unfederate {QUOTED} 000000000000",
        f"recipient cut-off {QUOTED} --yes",
        f"recipient restore {QUOTED}",
        f"recipient delete {QUOTED} --yes",
        f"token list {QUOTED}",
        f"grant list --recipient {QUOTED}",
        f"grant create {QUOTED} {QUOTED}",
        "share list",
        "expiring --within 365d",
    ],
    ids=lambda line: " ".join(shlex.split(line)[:2]),
)
def test_control_characters_in_names_are_escaped(hostile: Deltaic, line: str) -> None:
    for form in (line, f"{line} --json"):
        result = hostile(form)
        assert result.stdout + result.stderr
        assert "Traceback" not in result.output
        assert not STEERING & set(result.stdout + result.stderr)
