"""Import the emulator's modules by name: LocalEmu is a fork of LocalStack with renamed packages.

They are looked up and not imported, because only the emulator's own environment has them.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True, slots=True)
class Emulator:
    """`localemu` or `localstack`."""

    name: str

    def module(self, path: str) -> Any:
        """Return one of its modules, such as `services.apigateway.models`."""
        return import_module(f"{self.name}.{path}")

    def has(self, path: str) -> bool:
        """Return whether it has a module; the packages above it must be there."""
        return find_spec(f"{self.name}.{path}") is not None
