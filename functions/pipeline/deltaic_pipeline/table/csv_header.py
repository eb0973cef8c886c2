"""Decides before Spark starts whether the header of a CSV file is the schema's, where that is certain."""

import csv
import re
from collections.abc import Mapping, Sequence

from deltaic_pipeline.spark.errors import other_length, other_name

_BEYOND_THE_HEADER = frozenset({
    "dateformat", "emptyvalue", "inferschema", "locale", "mode", "nanvalue", "negativeinf", "nullvalue", "positiveinf",
    "preferdate", "samplingratio", "timestampformat", "timestampntzformat", "timezone",
})  # fmt: skip
NO_HEADER = "has 0 bytes, and a header is due. Deliver it again, or set the option `header: false`."
_READ_HERE = frozenset({"delimiter", "enforceschema", "header", "quote", "sep"})


def wrong_header(file: str, begins: bytes, columns: Sequence[str], options: Mapping[str, str]) -> str | None:
    """Return what Spark would say of a file that begins so; None if it says nothing, or if only Spark can tell."""
    told = {name.lower(): value for name, value in options.items()}
    separator, quote = told.get("sep", told.get("delimiter", ",")), told.get("quote", '"')
    checked = told.get("header", "true").lower() == "true" and told.get("enforceschema", "false").lower() == "false"
    if not checked or told.keys() - _BEYOND_THE_HEADER - _READ_HERE or len(separator) != 1 or len(quote) != 1:
        return None
    if not begins:
        return f"{file} {NO_HEADER}"
    lines = [line for line in re.split(rb"\r\n?|\n", begins)[:-1] if line.strip()]
    try:
        [header] = csv.reader([lines[0].decode()], delimiter=separator, quotechar=quote, strict=True)
    except (IndexError, UnicodeDecodeError, csv.Error):
        return None
    if not header[0].isprintable() or not all(header) or any(quote in name for name in header):
        return None  # a byte order mark, names that are nulls, quotes that each reader takes in its own way
    if len(header) != len(columns):
        return other_length(file, len(header), len(columns))
    pairs = zip(header, columns, strict=True)
    differing = ((found, wanted) for found, wanted in pairs if found.lower() != wanted.lower())
    return next((other_name(file, wanted, found, columns) for found, wanted in differing), None)
