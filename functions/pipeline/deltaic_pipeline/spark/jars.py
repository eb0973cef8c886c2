"""Download Spark's jars once, verify them by pinned digests, and use them from a cache afterwards."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deltaic_terminal.environment import REPOSITORY_VARIABLE, Machine, write_once

from deltaic_pipeline.failures import PipelineError

PARALLEL = 8
ATTEMPTS = 3
TIMEOUT_SECONDS = 60
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Jar:
    """Jar in a Maven repository, pinned by its SHA-256 digest."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """File name in the repository and in the cache folder."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Path relative to a repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def _pinned() -> Iterator[Jar]:
    for line in Path(__file__).with_name("jars.lock").read_text().splitlines():
        if not line.startswith("#"):
            group, artifact, version, size, sha256 = line.split()
            yield Jar(group, artifact, version, int(size), sha256)


NEEDED = tuple(_pinned())
"""Jars on the class path of a session on one machine."""

DELTA = tuple(jar for jar in NEEDED if jar.group == "io.delta")
AVRO = tuple(jar for jar in NEEDED if jar.artifact.startswith("spark-avro"))
S3A = tuple(jar for jar in NEEDED if jar not in {*DELTA, *AVRO})


def ensure_jars(jars: Sequence[Jar], machine: Machine, report: Callable[[str], None]) -> tuple[Path, ...]:
    """Return the paths of the jars in the cache folder, in the same order, with verified digests.

    Copies missing jars from Maven's local repository or downloads them in parallel; each file is written atomically.
    If no jar is missing, no network is needed. `report` gets progress messages. Raises `PipelineError` with the jar,
    the folder and the environment variable for another repository, if a jar cannot be downloaded.
    """
    folder = machine.cache / "jars"
    files = tuple(folder / jar.name for jar in jars)
    missing = [jar for jar, file in zip(jars, files, strict=True) if not _matches(file, jar)]
    if not missing:
        return files
    folder.mkdir(parents=True, exist_ok=True)
    total = sum(jar.size for jar in missing) / MEGABYTE
    report(f"downloading {len(missing)} jars ({total:.1f} MB) from {machine.repository}")
    with ThreadPoolExecutor(PARALLEL) as pool:
        # After a failure, jars that are not started yet are skipped.
        for number, jar in enumerate(pool.map(partial(_obtain, machine=machine, folder=folder), missing), 1):
            report(f"downloaded {number} of {len(missing)} jars: {jar.name}")
    return files


def _obtain(jar: Jar, machine: Machine, folder: Path) -> Jar:
    target = folder / jar.name
    local = machine.maven_cache / jar.path
    # A developer's Maven repository can be incomplete (a .pom without its .jar), so the digest is checked.
    content = local.read_bytes() if _matches(local, jar) else _fetch(jar, machine, folder)
    if not _matches(target, jar):
        target.unlink(missing_ok=True)  # it is incomplete, or another build
    write_once(target, content)
    return jar


def _fetch(jar: Jar, machine: Machine, folder: Path) -> bytes:
    address = f"{machine.repository}/{jar.path}"
    advice = f"copy {jar.name} into {folder}, or set {REPOSITORY_VARIABLE} to a mirror of Maven Central"
    cause = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(attempt)
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 -- the operator's URL
                content: bytes = response.read()
        except urllib.error.HTTPError as error:
            cause = f"HTTP {error.code}"
            error.close()
            if error.code < http.client.INTERNAL_SERVER_ERROR:
                break  # a retry will not find it either
            continue
        except (OSError, ValueError, http.client.HTTPException) as failure:
            cause = str(getattr(failure, "reason", failure)) or type(failure).__name__
            continue
        if hashlib.sha256(content).hexdigest() != jar.sha256:
            raise PipelineError(
                f"{machine.repository} returned another {jar.name} than the pinned one ({len(content)} B): {advice}."
            )
        return content
    raise PipelineError(f"cannot download {jar.name} from {machine.repository} ({cause}): {advice}.")


def _matches(file: Path, jar: Jar) -> bool:
    try:
        if file.stat().st_size != jar.size:
            return False
        with file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False
