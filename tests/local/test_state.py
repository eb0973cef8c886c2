"""A state folder has one user at a time and tells only of an AWS that runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltaic_ops.local.state import StateInUse, announced, locked, running


def test_a_second_user_is_refused_with_the_first_ones_process(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "state"),
        pytest.raises(StateInUse, match=rf"process {os.getpid()}.*--state"),
        locked(tmp_path / "state"),
    ):
        pass
    with locked(tmp_path / "state"):
        pass


def test_a_running_aws_is_told_and_forgotten(tmp_path: Path) -> None:
    assert running(tmp_path) is None
    with announced(tmp_path, "http://127.0.0.1:1", os.getpid(), {"AWS_REGION": "us-east-1"}):
        assert running(tmp_path) == {"AWS_REGION": "us-east-1"}
        known = json.loads((tmp_path / "aws.json").read_text())
        assert (known["endpoint"], known["pid"]) == ("http://127.0.0.1:1", os.getpid())
        assert (tmp_path / "aws.json").stat().st_mode & 0o077 == 0
    assert running(tmp_path) is None


def test_an_aws_whose_process_has_died_is_not_told(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with announced(tmp_path, "http://127.0.0.1:1", child.pid, {}):
        assert running(tmp_path) is None
