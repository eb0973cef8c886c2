"""Build error messages about unknown column names."""

from collections.abc import Iterable

from deltaic_terminal.nearest import did_you_mean

THE_TABLE = "the table, which gets no other without evolve_schema"


def missing_column(name: str, columns: Iterable[str], owner: str) -> str | None:
    """Return the error message if `columns` lack `name`, else None; `owner` has the columns, such as `the table`."""
    names = list(columns)
    return None if name.lower() in names_by_lower_case(names) else unknown_name(name, names, f"a column of {owner}")


def names_by_lower_case(names: Iterable[str]) -> dict[str, str]:
    """Return a dictionary from the lower-case form of each name to the name."""
    return {name.lower(): name for name in names}


def unknown_name(name: str, names: Iterable[str], kind: str) -> str:
    """Return the error message for a name that is not `kind` (such as `a column`), suggesting one of `names`."""
    return f"'{name}' is not {kind}" + did_you_mean(name, names)
