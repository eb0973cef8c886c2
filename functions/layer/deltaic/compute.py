"""Arrow's compute functions under their names in `pyarrow.compute`, without importing that module.

The import of `pyarrow.compute` creates 280 Python functions with signatures and documentation, which takes longer than
the rest of Arrow (decision 100). This module creates each function at its first use, from the same registry and with
the same arguments. Methods of arrays (`take`, `cast`, `is_null`) import `pyarrow.compute`: call the functions instead.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyarrow._compute import (
    CastOptions,
    CumulativeOptions,
    DictionaryEncodeOptions,
    JoinOptions,
    MatchSubstringOptions,
    PadOptions,
    ReplaceSubstringOptions,
    RoundTemporalOptions,
    SetLookupOptions,
    SliceOptions,
    SortOptions,
    StrftimeOptions,
    StructFieldOptions,
    get_function,
)

if TYPE_CHECKING:
    from pyarrow.compute import *  # noqa: F403, TID251 -- for their types
    from pyarrow.lib import DataType

_KEYWORDS: Final = {"and_": "and", "or_": "or"}


def _cast_options(target_type: "DataType", safe: bool = True) -> CastOptions:
    return CastOptions.safe(target_type) if safe else CastOptions.unsafe(target_type)


_OPTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ascii_rpad": PadOptions,
    "binary_join_element_wise": JoinOptions,
    "binary_slice": SliceOptions,
    "cast": _cast_options,
    "cumulative_sum": CumulativeOptions,
    "dictionary_encode": DictionaryEncodeOptions,
    "ends_with": MatchSubstringOptions,
    "floor_temporal": RoundTemporalOptions,
    "index_in": SetLookupOptions,
    "is_in": SetLookupOptions,
    "match_substring": MatchSubstringOptions,
    "match_substring_regex": MatchSubstringOptions,
    "replace_substring": ReplaceSubstringOptions,
    "sort_indices": SortOptions,
    "starts_with": MatchSubstringOptions,
    "strftime": StrftimeOptions,
    "struct_field": StructFieldOptions,
    "utf8_slice_codeunits": SliceOptions,
}
"""Arrow's option class for each function that is called with options; all other functions use Arrow's defaults."""


def __getattr__(name: str) -> Callable[..., Any]:
    """Return Arrow's compute function with this name, which takes its arguments and then options."""
    try:
        function = get_function(_KEYWORDS.get(name, name))
    except KeyError:
        raise AttributeError(f"Arrow has no function {name}") from None
    options = _OPTIONS.get(name)
    arity = function.arity

    def call(*arguments: Any, **keywords: Any) -> Any:
        if options is None:
            if keywords:
                raise TypeError(f"{name} has no option class for {', '.join(keywords)}; add it to _OPTIONS")
            return function.call(arguments)
        count = len(arguments) if arity is Ellipsis else arity
        positional = arguments[count:]
        return function.call(arguments[:count], options(*positional, **keywords) if positional or keywords else None)

    globals()[name] = call
    return call
