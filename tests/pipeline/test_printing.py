"""Nothing but text is printed: what would command a terminal or reorder what is read is seen escaped."""

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
NO_TEXT = [*map(chr, range(9)), *map(chr, range(11, 32)), *map(chr, range(0x7F, 0xA0)), *"\u2028\u2029"]
NO_TEXT += [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "\ud800", "\udfff"]

PROGRAM = """
import json, sys, time, typer
from deltaic_pipeline.job_command import conduct
from deltaic_pipeline.failures import PipelineError
from deltaic_terminal.printing import only_text
from deltaic_terminal.progress import step
name = json.loads(sys.argv[1])
def job(progress, tell):
    with step(progress, name) as told:
        told(name)
        print(name, file=sys.stderr)
        typer.echo(name)
    tell([name], {"event": name})
    sys.stdout.write(name)
    sys.stderr.writelines([name])
    raise PipelineError(name)
conduct(job, as_json="json" in sys.argv, stopped="")
"""


@pytest.mark.parametrize("character", NO_TEXT, ids=ascii)
def test_what_is_no_text_is_escaped_as_in_json(character: str) -> None:
    assert json.loads(f'"{visible(character)}"') == character
    assert visible(character).isascii()
    assert visible(character).isprintable()


@given(st.text())
def test_text_stays_as_it_is(text: str) -> None:
    kept = "".join(letter for letter in text if letter not in NO_TEXT)
    assert visible(kept) == kept
    assert len(one_line(text).splitlines()) <= 1


@pytest.mark.parametrize("name", [CLIPBOARD, "\x1b[2J", "\x9b2J", "\r[bold]a[/bold]", "\u202e", "a\udce9"], ids=ascii)
@pytest.mark.parametrize("form", ["", "json"])
def test_what_a_job_prints_is_text_on_a_terminal_and_in_a_file(name: str, form: str) -> None:
    words = [sys.executable, "-c", PROGRAM, json.dumps(name), form]
    filed = subprocess.run(words, capture_output=True, check=True, timeout=60)
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as shown:
        os.close(theirs)
        seen = b""
        # The end of a terminal is an error where Linux tells it.
        while piece := _read(ours):
            seen += piece
    os.close(ours)
    assert shown.returncode == 0
    for said in (filed.stdout, filed.stderr):
        text = said.decode()
        assert text
        assert visible(text) == text
    text = seen.decode()
    assert name not in text
    assert visible(name) in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
