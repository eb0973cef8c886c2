"""Not typed: used at the edges only."""

from typing import Any

def __getattr__(name: str) -> Any: ...
