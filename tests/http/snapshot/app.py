"""A function that returns whether its modules for the snapshot are loaded."""

import sys
from typing import Any

from deltaic.snapstart import load_before_snapshot

load_before_snapshot("colorsys")


def handler(event: Any, context: object) -> bool:  # noqa: ARG001 -- Lambda passes both
    """Return whether the module is loaded."""
    return "colorsys" in sys.modules
