"""The hooks around a snapshot of this process (SnapStart): load modules before, differ after.

A cold start loads what its first answer needs and no more, but a snapshot is taken once and restored often: whatever
the first request would import is imported before it. Modules only: a client, a connection, a secret or a thread in a
snapshot would be shared by every process that is restored from it, and outlive what it was made with. Clients are made
after each restore instead.

AWS's runtime brings the hooks (`snapshot_restore_py`) and runs them under SnapStart alone; without them, or without
SnapStart, nothing here costs a cold start anything.
"""

from collections.abc import Callable
from importlib import import_module


def load_before_snapshot(*modules: str) -> None:
    """Have the modules imported before a snapshot is taken; one that is missing then fails the deployment."""
    try:
        from snapshot_restore_py import register_before_snapshot  # type: ignore[import-untyped]
    except ImportError:
        return
    for module in modules:
        register_before_snapshot(import_module, module)


def call_after_restore(function: Callable[[], object]) -> None:
    """Have a function called after each restore, before the first request."""
    try:
        from snapshot_restore_py import register_after_restore
    except ImportError:
        return
    register_after_restore(function)
