"""Download tables with `deltaic pull`."""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from client_matrix.scripts import reading


def read(job: dict[str, Any], check: reading.Check) -> reading.Rows:
    """Download a table into a Parquet file."""
    url = f"{job['profiles'][check['profile']]}#{job['share']}.{job['schema']}.{check['table']}"
    at = [] if check["version"] is None else ["--version", str(check["version"])]
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "rows.parquet")
        command = [str(Path(sys.executable).with_name("deltaic")), "pull", url, target, *at]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise OSError(process.stderr or process.stdout)
        rows: reading.Rows = pq.read_table(target).to_pylist()
        return rows


reading.main(version("deltaic"), read)
