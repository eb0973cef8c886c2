"""Imports of the catalog: no AWS SDK before the first call, and no pydantic."""

import json
import subprocess
import sys

import pytest

PROBE = "import sys, json, {module}; print(json.dumps(sorted(name.partition('.')[0] for name in sys.modules)))"


@pytest.mark.parametrize("module", ["deltaic.catalog.reader", "deltaic.catalog.credentials.tokens"])
def test_catalog_imports_no_sdk(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module)], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(result.stdout))
    assert "deltaic" in loaded
    assert not loaded & {"boto3", "botocore", "obstore", "pyarrow", "pydantic", "urllib3", "requests"}
