"""Arrow's compute functions under their names in `pyarrow.compute`, which a start does without.

When that module is imported it makes a Python function with signature and documentation of each of Arrow's 280, which
takes longer than all else of Arrow (decision 100); here each is made when it is first asked for. They are the same
functions, of Arrow's own registry, with the same arguments. Arrays' methods (`take`, `cast`, `is_null`) import that
module: call the function instead.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyarrow._compute import (
    CastOptions,
    CumulativeOptions,
    DictionaryEncodeOptions,
    MatchSubstringOptions,
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
    from pyarrow.compute import *  # noqa: F403, TID251 -- as they are typed there
    from pyarrow.lib import DataType

_KEYWORDS: Final = {"and_": "and", "or_": "or"}


def _cast_options(target_type: "DataType", safe: bool = True) -> CastOptions:
    return CastOptions.safe(target_type) if safe else CastOptions.unsafe(target_type)


_OPTIONS: Final[dict[str, Callable[..., Any]]] = {
    "cast": _cast_options,
    "cumulative_sum": CumulativeOptions,
    "dictionary_encode": DictionaryEncodeOptions,
    "ends_with": MatchSubstringOptions,
    "floor_temporal": RoundTemporalOptions,
    "index_in": SetLookupOptions,
    "is_in": SetLookupOptions,
    "match_substring_regex": MatchSubstringOptions,
    "replace_substring": ReplaceSubstringOptions,
    "sort_indices": SortOptions,
    "starts_with": MatchSubstringOptions,
    "strftime": StrftimeOptions,
    "struct_field": StructFieldOptions,
    "utf8_slice_codeunits": SliceOptions,
}
"""What the functions that are told more than values are told it by; of all others the defaults hold."""


def __getattr__(name: str) -> Callable[..., Any]:
    """Return Arrow's function of this name: it takes values, and then its options by place or name."""
    try:
        function = get_function(_KEYWORDS.get(name, name))
    except KeyError:
        raise AttributeError(f"Arrow has no function {name}") from None
    options = _OPTIONS.get(name)
    values = function.arity

    def call(*arguments: Any, **named: Any) -> Any:
        if options is None:
            if named:
                raise TypeError(f"{name} takes no options until _OPTIONS names them: {', '.join(named)}")
            return function.call(arguments)
        more = arguments[values:]
        return function.call(arguments[:values], options(*more, **named) if more or named else None)

    globals()[name] = call
    return call
