"""Test that compute functions equal those of `pyarrow.compute`, which reading a table never imports."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from deltaic import compute
from golden.library import load, place

ROOT = Path(__file__).parent.parent

FLAGS = pa.array([True, False, None, True])
NUMBERS = pa.array([3, 1, None, 3])
REALS = pa.array([1.5, float("inf"), None, -2.0])
TEXTS = pa.array(["ab", "b=", None, "ab"])
TIMES = pa.array([datetime(2026, 1, 2, 3, 4, 5, 6789, UTC)] * 4)
STRUCTS = pa.array([{"a": {"b": 1}}, {"a": None}, None, {"a": {"b": 2}}])
ROWS = pa.RecordBatch.from_arrays([NUMBERS, TEXTS], ["n", "t"])

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "abs": ((REALS,), {}),
    "add": ((NUMBERS, 1), {}),
    "all": ((FLAGS,), {}),
    "and_": ((FLAGS, FLAGS), {}),
    "binary_join": ((pa.array([["a", "b"], ["c"]]), "\n"), {}),
    "cast": ((NUMBERS, pa.string()), {}),
    "coalesce": ((NUMBERS, 0), {}),
    "cumulative_sum": ((pa.array([1, 2]),), {}),
    "dictionary_encode": ((TEXTS,), {"null_encoding": "encode"}),
    "drop_null": ((TEXTS,), {}),
    "ends_with": ((TEXTS, "="), {}),
    "equal": ((NUMBERS, 3), {}),
    "filter": ((ROWS, FLAGS), {}),
    "floor_temporal": ((TIMES, 1), {"unit": "millisecond"}),
    "greater": ((NUMBERS, 1), {}),
    "greater_equal": ((NUMBERS, 3), {}),
    "if_else": ((FLAGS, NUMBERS, 0), {}),
    "index_in": ((TEXTS,), {"value_set": pa.array(["ab"])}),
    "indices_nonzero": ((FLAGS,), {}),
    "invert": ((FLAGS,), {}),
    "is_in": ((TEXTS,), {"value_set": pa.array(["ab"])}),
    "is_nan": ((REALS,), {}),
    "is_null": ((REALS,), {}),
    "is_valid": ((REALS,), {}),
    "less": ((NUMBERS, 3), {}),
    "less_equal": ((NUMBERS, 1), {}),
    "match_substring_regex": ((TEXTS, "^a"), {}),
    "min_max": ((NUMBERS,), {}),
    "multiply": ((NUMBERS, 2), {}),
    "not_equal": ((NUMBERS, 3), {}),
    "or_": ((FLAGS, FLAGS), {}),
    "replace_substring": ((TEXTS, "=", "%3D"), {}),
    "replace_with_mask": ((NUMBERS, pa.array([True, False, False, True]), pa.array([7, 8])), {}),
    "sort_indices": ((ROWS,), {"sort_keys": [("n", "descending"), ("t", "ascending")]}),
    "starts_with": ((TEXTS,), {"pattern": "a"}),
    "strftime": ((TIMES,), {"format": "%Y-%m-%dT%H:%M:%S"}),
    "struct_field": ((STRUCTS, ["a", "b"]), {}),
    "subtract": ((NUMBERS, NUMBERS), {}),
    "sum": ((NUMBERS,), {}),
    "take": ((ROWS, pa.array([3, 0])), {}),
    "unique": ((TEXTS,), {}),
    "utf8_length": ((TEXTS,), {}),
    "utf8_slice_codeunits": ((TEXTS, 0, 1), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_equals_arrows(name: str) -> None:
    values, options = CALLS[name]
    assert getattr(compute, name)(*values, **options).equals(getattr(pyarrow.compute, name)(*values, **options))


def test_an_unsafe_cast_truncates_values() -> None:
    assert compute.cast(REALS.slice(0, 1), pa.int64(), safe=False).to_pylist() == [1]
    with pytest.raises(pa.ArrowInvalid):
        compute.cast(REALS.slice(0, 1), pa.int64())


def test_unsupported_options_are_refused() -> None:
    with pytest.raises(TypeError, match="sum has no option class for skip_nulls"):
        compute.__getattr__("sum")(NUMBERS, skip_nulls=False)


def test_an_unknown_function_is_reported_by_name() -> None:
    with pytest.raises(AttributeError, match="no function fill_nil"):
        compute.__getattr__("fill_nil")


@pytest.mark.parametrize("name", ["checkpoint_partitioned", "checkpoint_struct_stats", "clone_deletion_vectors"])
def test_a_table_is_read_without_pyarrow_compute(name: str, tmp_path: Path) -> None:
    program = """
import sys
sys.modules["numpy"] = sys.modules["pandas"] = None  # the layer has neither, and pandas would import pyarrow.compute
from pathlib import Path
from delta_tables.folder_store import FolderStore
from deltaic.delta.log import DeltaLog
files = sum(batch.files.num_rows for batch in DeltaLog(FolderStore(Path(sys.argv[1]))).snapshot().scan())
print(files > 0, "pyarrow.compute" in sys.modules)
"""
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "functions" / "layer")])
    table = place(load(name), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program, table],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["True", "False"]
