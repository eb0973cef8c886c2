"""SnapStart hooks: import modules before the snapshot, and create clients after each restore.

A snapshot is taken once and restored often, so it should contain every module that the first request would import.
It must not contain clients, connections, secrets or threads: all restored processes would share them, and they would
outlive their credentials.

AWS's runtime provides the hooks (`snapshot_restore_py`) and calls them only under SnapStart. Otherwise this module
adds nothing to a cold start.
"""

from collections.abc import Callable
from importlib import import_module


def load_before_snapshot(*modules: str) -> None:
    """Import these modules before the snapshot is taken; a missing module makes the deployment fail, not a request."""
    try:
        from snapshot_restore_py import register_before_snapshot  # type: ignore[import-untyped]
    except ImportError:
        return
    for module in modules:
        register_before_snapshot(import_module, module)


def call_after_restore(function: Callable[[], object]) -> None:
    """Call a function after each restore, before the first request."""
    try:
        from snapshot_restore_py import register_after_restore
    except ImportError:
        return
    register_after_restore(function)
