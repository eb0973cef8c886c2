"""Choose the response format, or reject a client that would misread the table.

PROTOCOL.md, "responseFormat": without a header the response is in parquet format; a single format "the server must
respect"; of a list, parquet may be used "if the table does not have any advanced features". So a single requested
format is used or rejected, but never replaced. Rejecting is safer: Spark streams and change feeds request parquet, and
would return deleted rows of a table with deletion vectors (decision 18).
"""

from collections.abc import Iterable
from typing import Final

from deltaic.errors import UnsupportedOperation
from deltaic.protocol.capabilities import Capabilities, ResponseFormat
from deltaic.protocol.clients import lacks_delta_format
from deltaic.table_features import TABLE_FEATURES, Concerns

HARMLESS: Final = frozenset(
    feature.name.lower() for feature in TABLE_FEATURES if feature.concerns in {Concerns.LOG, Concerns.WRITERS}
)
"""Canonical names of features for which no client is rejected."""

SELF_CHECKED: Final = frozenset(
    feature.name.lower()
    for feature in TABLE_FEATURES
    if feature.concerns is Concerns.DATA and not feature.announced and not feature.final_name
)
"""Canonical names of features that a client need not list for the delta format; it must list all others."""

_DISPLAY: Final = {feature.name.lower(): feature.name for feature in TABLE_FEATURES}
# The reference's clients look for this text in an error.
_REFUSED: Final = "Unsupported Delta Table Properties"


def canonical(feature: str) -> str:
    """Return a feature's name in lower case without `-preview` or `-dev`, for example `typewidening`."""
    return feature.strip().lower().removesuffix("-preview").removesuffix("-dev")


def choose_format(
    capabilities: Capabilities,
    *,
    misread_as_parquet: Iterable[str],
    needed_for_delta: Iterable[str],
    user_agent: str = "",
) -> ResponseFormat:
    """Return the response format for a table that a client can read.

    `misread_as_parquet` are features that the table uses and that a client of the parquet format would misread, such as
    deletion vectors. `needed_for_delta` are the reader features in use: with any of them, a client that supports both
    formats gets delta, unless it does not list these features. `user_agent` only affects the remedy in the message.
    Raises UnsupportedOperation, with features and remedy, if the client cannot read the table in any format.
    """
    misread, needed = _relevant(misread_as_parquet), _relevant(needed_for_delta)
    announced = {canonical(feature) for feature in capabilities.reader_features} | SELF_CHECKED
    missing = [name for name in needed if name not in announced]
    parquet = "parquet" in capabilities.response_formats and not misread
    delta = "delta" in capabilities.response_formats and not missing
    if parquet and not (needed and delta):
        return "parquet"
    if delta:
        return "delta"
    if "delta" not in capabilities.response_formats:
        refused = f"{_REFUSED}: the table uses {_names(misread)}, which the parquet response format cannot express."
        if lacks_delta_format(user_agent):
            raise UnsupportedOperation(f"{refused} Upgrade delta-sharing to 1.1 or later (change feeds: 1.3).")
        raise UnsupportedOperation(
            f"{refused} Request the delta format with the header delta-sharing-capabilities: responseformat=delta;"
            f"readerfeatures={','.join(sorted({*needed, *misread}))} (Spark: option responseFormat=delta; Python: "
            "use_delta_format=True for changes), with a client that supports it."
        )
    raise UnsupportedOperation(
        f"{_REFUSED}: the table uses {_names(missing)}, which this client does not list among its readerfeatures. "
        f"Use a newer client, or, if it reads them, add readerfeatures={','.join(missing)} to the header "
        "delta-sharing-capabilities."
    )


def _relevant(features: Iterable[str]) -> list[str]:
    """Return the canonical names of features except HARMLESS, sorted, so that messages do not vary."""
    return sorted({canonical(feature) for feature in features} - HARMLESS)


def _names(features: Iterable[str]) -> str:
    return ", ".join(_DISPLAY.get(feature, feature) for feature in features)
