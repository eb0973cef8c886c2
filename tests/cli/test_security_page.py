"""What the security page tells people to type does what it says, and what it refers to exists."""

import hashlib
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli.conftest import Deltaic
from deltaic.catalog.tokens import TokenStore
from deltaic.errors import Unauthenticated
from deltaic_ops.deploy.template import ROOT

PAGE = (ROOT / "infra" / "security.md").read_text(encoding="utf-8")
COMMANDS = [
    line.removeprefix("deltaic ")
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("deltaic ")
]


def test_every_command_of_the_page_is_taken_and_ends_what_it_says(
    deltaic: Deltaic, tokens: TokenStore, tmp_path: Path
) -> None:
    for line in (
        "share create sales_share",
        "recipient create alice",
        "grant create alice sales_share",
        "storage create vault --access-key-id AKIDOLD --secret-access-key-stdin",
        f"token create alice --profile {tmp_path}/leaked.share",
        f"token create alice --profile {tmp_path}/alice.share",
    ):
        deltaic.done(line, given="hush\n")
    leaked, other = (
        json.loads((tmp_path / f"{name}.share").read_text())["bearerToken"] for name in ("leaked", "alice")
    )
    # The page's own way from a token that was found to its id.
    found = hashlib.sha256(leaked.encode()).hexdigest()[:12]
    assert len(COMMANDS) == 8
    for line in sorted(COMMANDS, key=lambda line: line.startswith("recipient delete")):
        deltaic.done(line.replace("TOKEN_ID", found), given="hush\n")
        if line.startswith("token revoke"):
            with pytest.raises(Unauthenticated):
                tokens.authenticate(leaked)
            assert tokens.authenticate(other).recipient == "alice"
        if line.startswith("token rotate"):
            with pytest.raises(Unauthenticated):
                tokens.authenticate(other)
        if line.startswith("grant revoke"):
            assert deltaic.json("grant list") == []
    assert deltaic.json("recipient list") == []


def test_what_the_page_refers_to_exists() -> None:
    paths = re.findall(r"`((?:tests|functions)/[\w/.]+)`", PAGE)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = re.findall(r"`(deltaic(?:\.\w+)+)`", PAGE)
    assert [module for module in modules if find_spec(module) is None] == []
