"""Test that the shared layer fits into Lambda and has exactly the packages that functions can import."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from bench.cold import build_layer
from deltaic_checkpoint.checkpoint_creation import MAX_LOG_BYTES
from deltaic_ops.deploy.sam import BuildTarget
from deltaic_ops.deploy.sam_template import ROOT, load_template
from deltalake import write_deltalake

pytestmark = pytest.mark.deploy

FUNCTION = ROOT / "functions" / "maintenance" / "checkpoint"
LIMIT = 262_144_000
"""Maximum unzipped size of a function with its layers (AWS, "Lambda quotas")."""
FUNCTION_ALLOWANCE = 1_000_000
TEMPORARY = 512_000_000
"""Disk space of a function, unless the template sets more."""
UNWANTED = ["numpy", "pandas", "deltalake", "starlette", "pytest"]


@dataclass(frozen=True)
class Layers:
    """Both layers, built for AWS and a processor."""

    architecture: str
    shared: Path
    packed: Path


@pytest.fixture(scope="module", params=["arm64", "x86_64"])
def layers(request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Layers:
    target, architecture = tmp_path_factory.mktemp("layers"), str(request.param)
    if BuildTarget.this_machine() == BuildTarget(request.param, "3.13"):
        return Layers(architecture, built / "DeltaicLayer" / "python", built / "DeltalakeLayer" / "python")
    return Layers(
        architecture,
        build_layer(ROOT, target / "shared", architecture, "3.13"),
        build_layer(ROOT, target / "packed", architecture, "3.13", "maintenance/layer"),
    )


def unzipped_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_layer_for_aws_is_small_enough(layers: Layers) -> None:
    layer, architecture = layers.shared, layers.architecture
    assert unzipped_size(layer) + FUNCTION_ALLOWANCE < LIMIT
    # Leave space for a layer that a provider adds, such as an extension or an agent of a firewall.
    # This limit excludes bytecode, because a build without the functions' Python has none.
    bytecode = sum(path.stat().st_size for path in layer.rglob("__pycache__/*"))
    assert unzipped_size(layer) - bytecode < 0.67 * LIMIT
    assert not [name for name in UNWANTED if (layer / name).exists()]
    assert not list(layer.rglob("*.pyx"))
    machine = {"arm64": "aarch64", "x86_64": "x86_64"}[architecture]
    compiled = [path.name for path in layer.rglob("*.cpython-*.so")]
    assert compiled
    assert not [name for name in compiled if f"cpython-313-{machine}" not in name]


def test_layer_has_bytecode_of_all_modules(built: Path) -> None:
    """Layers are read-only, so Python would compile modules without bytecode at every start."""
    layer = built / "DeltaicLayer" / "python"
    sources = [*layer.glob("deltaic/**/*.py"), *layer.glob("botocore/*.py"), *layer.glob("pyarrow/*.py")]
    assert sources
    for source in sources:
        bytecode = Path(importlib.util.cache_from_source(str(source))).read_bytes()
        # PEP 552: flags of bytecode that is valid regardless of the time of its source.
        assert bytecode[:8] == importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little"), source
        assert b"/opt/python/" in bytecode, "a traceback would name the builder's folder"


def test_both_layers_are_small_enough_together(layers: Layers) -> None:
    architecture, shared, packed = layers.architecture, layers.shared, layers.packed
    assert [path.name for path in packed.iterdir()] == ["deltalake.zip"]
    assert unzipped_size(shared) + unzipped_size(packed) + FUNCTION_ALLOWANCE < LIMIT
    with zipfile.ZipFile(packed / "deltalake.zip") as archive:
        assert unzipped_size(shared) + sum(entry.file_size for entry in archive.infolist()) > LIMIT
        # Unpacked next to the copy of the largest accepted log and its new checkpoint.
        assert sum(entry.file_size for entry in archive.infolist()) + 2 * MAX_LOG_BYTES < TEMPORARY
        machine = {"arm64": b"\xb7", "x86_64": b"\x3e"}[architecture]  # e_machine of an ELF file
        compiled = [name for name in archive.namelist() if name.endswith(".so")]
        assert {archive.read(name)[18:19] for name in compiled} == {machine}
        assert not [name for name in archive.namelist() if "__pycache__" in name]
        # Two builds write the same archive.
        assert len({entry.date_time for entry in archive.infolist()}) == 1
        assert archive.namelist() == sorted(archive.namelist(), key=lambda name: name.split("/"))


def test_layers_write_a_checkpoint_without_other_packages(built: Path, tmp_path: Path) -> None:
    """The layer finds and unpacks its archive if deltalake is not installed."""
    program = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from deltaic.delta.segment import find_segment
from deltaic_checkpoint.checkpoint_creation import LogCopy, create_checkpoint
table = LogCopy(Path(sys.argv[1]))
assert "deltalake" not in sys.modules
checkpoint = create_checkpoint(table, find_segment(table), 0)
assert (checkpoint.version, checkpoint.content[:4]) == (3, b"PAR1"), checkpoint
outside = {
    name for name, module in sys.modules.items()
    if getattr(module, "__file__", None) and "site-packages" in module.__file__
}
assert not outside, outside
"""
    for number in range(4):
        write_deltalake(str(tmp_path), pa.table({"x": [number]}), mode="append")
    paths = [built / "DeltaicLayer" / "python", built / "DeltalakeLayer" / "python"]
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program, str(tmp_path), *map(str, paths), str(FUNCTION)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_layer_runs_every_function_without_other_packages(built: Path) -> None:
    """Run with only the layer and the code of a function on the path."""
    program = """
import importlib, importlib.util, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import botocore.session, deltaic
for module in pkgutil.walk_packages(deltaic.__path__, "deltaic."):
    importlib.import_module(module.name)
for function in sys.argv[2:]:
    sys.path.append(function.removesuffix("/app.py"))
    found = importlib.util.spec_from_file_location("app", function)
    app = importlib.util.module_from_spec(found)
    found.loader.exec_module(app)
    assert callable(app.handler)
session = botocore.session.get_session()
for service in ("dynamodb", "s3", "sts", "secretsmanager"):
    session.create_client(service, region_name="us-east-1")
assert not set(sys.modules) & {"numpy", "pandas", "deltalake", "starlette"}
outside = {
    name for name, module in sys.modules.items()
    if getattr(module, "__file__", None) and "site-packages" in module.__file__
}
assert not outside, outside
"""
    template = load_template(parameters={"Checkpoints": "enabled", "Follow": "enabled", "Notices": "14"})
    functions = [str(function.code / "app.py") for function in template.functions.values()]
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program, str(built / "DeltaicLayer" / "python"), *functions],
        env={"PATH": os.environ["PATH"], "AWS_REGION": "us-east-1", **template.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_trimmed_pyarrow_reads_every_codec(built: Path, codec: str) -> None:
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import pyarrow as pa, pyarrow.parquet as pq
table = pa.table({"path": ["a", None, "c"], "size": pa.array([1, 2, 3], pa.int64())})
sink = pa.BufferOutputStream()
pq.write_table(table, sink, compression=sys.argv[2])
assert pq.ParquetFile(pa.BufferReader(sink.getvalue())).read().equals(table)
assert pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0).column(0).compression == sys.argv[3]
"""
    codec_name = "UNCOMPRESSED" if codec == "none" else codec.upper()
    layer = built / "DeltaicLayer" / "python"
    subprocess.run([sys.executable, "-I", "-S", "-c", program, str(layer), codec, codec_name], check=True, timeout=60)
