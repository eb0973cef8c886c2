"""Test that jobs print text only: characters that control a terminal or reorder text are escaped."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from deltaic_terminal.printing import one_line, visible
from hypothesis import given
from hypothesis import strategies as st

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
CONTROL_CHARACTERS = [*map(chr, range(9)), *map(chr, range(11, 32)), *map(chr, range(0x7F, 0xA0)), *"\u2028\u2029"]
CONTROL_CHARACTERS += [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "\ud800", "\udfff"]

PROGRAM = """
import json, sys, time, typer
from deltaic_pipeline.job_command import run_job
from deltaic_pipeline.failures import PipelineError
from deltaic_terminal.printing import only_text
from deltaic_terminal.progress import step
name = json.loads(sys.argv[1])
def job(progress, report):
    with step(progress, name) as report_progress:
        report_progress(name)
        print(name, file=sys.stderr)
        typer.echo(name)
    report([name], {"event": name})
    sys.stdout.write(name)
    sys.stderr.writelines([name])
    raise PipelineError(name)
run_job(job, as_json="json" in sys.argv, stopped="")
"""


@pytest.mark.parametrize("character", CONTROL_CHARACTERS, ids=ascii)
def test_control_characters_are_escaped_as_in_json(character: str) -> None:
    assert json.loads(f'"{visible(character)}"') == character
    assert visible(character).isascii()
    assert visible(character).isprintable()


@given(st.text())
def test_text_stays_unchanged(text: str) -> None:
    printable = "".join(letter for letter in text if letter not in CONTROL_CHARACTERS)
    assert visible(printable) == printable
    assert len(one_line(text).splitlines()) <= 1


@pytest.mark.parametrize("name", [CLIPBOARD, "\x1b[2J", "\x9b2J", "\r[bold]a[/bold]", "\u202e", "a\udce9"], ids=ascii)
@pytest.mark.parametrize("form", ["", "json"])
def test_jobs_print_text_only_on_a_terminal_and_in_a_file(name: str, form: str) -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(name), form]
    to_file = subprocess.run(command, capture_output=True, check=True, timeout=60)
    main_end, job_end = pty.openpty()
    with subprocess.Popen(command, stdout=job_end, stderr=job_end, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(job_end)
        output = b""
        # On Linux, reading at the end of a terminal raises an error.
        while piece := _read(main_end):
            output += piece
    os.close(main_end)
    assert process.returncode == 0
    for stream in (to_file.stdout, to_file.stderr):
        text = stream.decode()
        assert text
        assert visible(text) == text
    text = output.decode()
    assert name not in text
    assert visible(name) in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
