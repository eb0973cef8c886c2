"""Settings of a Spark job from environment variables: cache folder, Maven repository and launcher."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
REPOSITORY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
"""Environment variable with the URL of a mirror of Maven Central. Spark uses the same variable."""

CACHE_VARIABLE = "DELTAIC_CACHE"


@dataclass(frozen=True, slots=True)
class Machine:
    """Settings of a job that depend on the machine, read from environment variables."""

    cache: Path
    """Cache folder for jars, the Java wrapper and native libraries; it can be deleted at any time."""

    repository: str
    """URL of the Maven repository for jars, without a trailing slash."""

    maven_cache: Path
    """Folder of Maven's local repository. Jars in it that have the right digest are not downloaded again."""

    environment: Mapping[str, str]

    @property
    def launched_by_spark(self) -> bool:
        """True if `spark-submit` started this driver, as on EMR, so that the cluster sets memory and class path."""
        return "PYSPARK_GATEWAY_PORT" in self.environment


def machine(environment: Mapping[str, str] | None = None) -> Machine:
    """Read the settings from environment variables, by default those of this process."""
    variables = dict(os.environ) if environment is None else dict(environment)
    home = Path(variables.get("HOME") or Path.home())
    cache = variables.get(CACHE_VARIABLE, "")
    base = Path(variables.get("XDG_CACHE_HOME") or home / ".cache")
    repository = variables.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL
    return Machine(
        cache=Path(cache).expanduser().absolute() if cache else base / "deltaic",
        repository=repository.rstrip("/"),
        maven_cache=home / ".m2" / "repository",
        environment=variables,
    )


def write_once(path: Path, content: bytes, mode: int = 0o644) -> Path:
    """Write a file atomically, unless it exists, and return its path.

    An existing file is never overwritten: a JVM that has mapped a native library crashes if the file changes.
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
