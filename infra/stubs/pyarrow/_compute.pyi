"""Not typed: used by `deltaic.compute` only."""

from typing import Any

def __getattr__(name: str) -> Any: ...
