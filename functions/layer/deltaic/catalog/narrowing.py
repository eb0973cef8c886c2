"""What the catalog itself demands of partition filters and hidden columns; whether a table has them it cannot know."""

from collections.abc import Collection, Sequence

from deltaic import partition_filters
from deltaic.errors import InvalidParameter


def checked_filter(text: str) -> str:
    """Return the text of a filter, trimmed, or "" for none; raises InvalidParameter for what cannot be parsed."""
    if not text.strip():
        return ""
    return partition_filters.parse(text.strip()).text


def checked_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns once each, without regard to case; raises InvalidParameter for an empty one."""
    if not all(columns):
        raise InvalidParameter("the name of a hidden column is empty: name partition columns of the table")
    once: dict[str, str] = {}
    for name in columns:
        once.setdefault(name.lower(), name)
    return tuple(once.values())


def check_access(access_modes: Collection[str], partition_filter: str, hidden_columns: Collection[str]) -> None:
    """Refuse directory access for a table of which not all is shared: raises InvalidParameter."""
    if "dir" in access_modes and (partition_filter or hidden_columns):
        what = "a partition filter" if partition_filter else "hidden columns"
        raise InvalidParameter(
            f"a table with {what} cannot have the access mode 'dir', whose credentials read the whole folder: share it "
            "by the access mode 'url' alone"
        )
