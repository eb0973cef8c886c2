"""Fixtures: a server with the golden tables for the session, and the command without any AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cli.conftest import Deltaic
from client.conftest import provider, shared

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["provider", "shared"]


@pytest.fixture
def deltaic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deltaic:
    monkeypatch.chdir(tmp_path)
    return Deltaic({})
