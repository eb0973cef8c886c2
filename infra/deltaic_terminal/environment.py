"""The environment of a job on this machine: cache folder, artifact repository, launcher."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
REPOSITORY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
"""Spark's own variable for a mirror of Maven Central; one variable serves both."""

CACHE_VARIABLE = "DELTAIC_CACHE"


@dataclass(frozen=True, slots=True)
class Machine:
    """Settings from the environment."""

    cache: Path
    """Folder for jars, the Java wrapper and native libraries; safe to delete."""

    repository: str
    """URL of a Maven repository, without a trailing slash."""

    maven_cache: Path
    """Local repository of Maven: jars in it with the right digest are not downloaded again."""

    environment: Mapping[str, str]

    @property
    def launched_by_spark(self) -> bool:
        """Return whether `spark-submit` started this driver (EMR), so that the cluster sets memory and class path."""
        return "PYSPARK_GATEWAY_PORT" in self.environment


def machine(environment: Mapping[str, str] | None = None) -> Machine:
    """Read the environment (by default this process's)."""
    variables = dict(os.environ) if environment is None else dict(environment)
    home = Path(variables.get("HOME") or Path.home())
    cache = variables.get(CACHE_VARIABLE, "")
    base = Path(variables.get("XDG_CACHE_HOME") or home / ".cache")
    repository = variables.get(REPOSITORY_VARIABLE) or _maven_mirror(home / ".m2" / "settings.xml") or MAVEN_CENTRAL
    return Machine(
        cache=Path(cache).expanduser().absolute() if cache else base / "deltaic",
        repository=repository.rstrip("/"),
        maven_cache=home / ".m2" / "repository",
        environment=variables,
    )


def write_once(path: Path, content: bytes, mode: int = 0o644) -> Path:
    """Write a file atomically, unless it exists, because other processes may use it.

    Overwriting a native library that another JVM has mapped would kill that JVM.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as sink:
            sink.write(content)
        temporary.chmod(mode)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _maven_mirror(settings: Path) -> str:
    try:
        root = ET.parse(settings).getroot()  # noqa: S314 -- a file in the user's home folder
    except (OSError, ET.ParseError):
        return ""
    for mirror in root.iterfind("{*}mirrors/{*}mirror"):
        covered = (mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(",")
        if {"*", "central", "external:*"} & set(covered) and "!central" not in covered:
            return (mirror.findtext("{*}url") or "").strip()
    return ""
