"""One server for the session with the golden tables, and the command as a recipient has it: without any AWS."""

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
