"""The jars that Spark needs, exactly these: pinned, fetched once, verified, then offline."""

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
    """One artifact of a Maven repository, pinned to its bytes."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file name, in the repository and in the cache."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path below a repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def _pinned() -> Iterator[Jar]:
    for line in Path(__file__).with_name("jars.lock").read_text().splitlines():
        if not line.startswith("#"):
            group, artifact, version, size, sha256 = line.split()
            yield Jar(group, artifact, version, int(size), sha256)


NEEDED = tuple(_pinned())
"""What a session on one machine has on its class path."""

DELTA = tuple(jar for jar in NEEDED if jar.group == "io.delta")
AVRO = tuple(jar for jar in NEEDED if jar.artifact.startswith("spark-avro"))
S3A = tuple(jar for jar in NEEDED if jar not in {*DELTA, *AVRO})


def ensure(jars: Sequence[Jar], machine: Machine, report: Callable[[str], None]) -> tuple[Path, ...]:
    """Return the jars' files in the cache folder, in the order given, every one with the pinned digest.

    Missing ones are copied from Maven's local repository or fetched in parallel, each written whole or not at all. With
    a complete folder nothing is asked of the network. `report` gets a line to show while jars are being fetched.
    Raises `PipelineError` that names the artifact, the folder and the mirror variable.
    """
    folder = machine.cache / "jars"
    files = tuple(folder / jar.name for jar in jars)
    missing = [jar for jar, file in zip(jars, files, strict=True) if not _matches(file, jar)]
    if not missing:
        return files
    folder.mkdir(parents=True, exist_ok=True)
    total = sum(jar.size for jar in missing) / MEGABYTE
    report(f"fetching {len(missing)} jars ({total:.1f} MB) from {machine.repository}")
    with ThreadPoolExecutor(PARALLEL) as pool:
        # After a failure the rest are not begun.
        for number, jar in enumerate(pool.map(partial(_obtain, machine=machine, folder=folder), missing), 1):
            report(f"fetched {number} of {len(missing)} jars: {jar.name}")
    return files


def _obtain(jar: Jar, machine: Machine, folder: Path) -> Jar:
    target = folder / jar.name
    local = machine.maven_cache / jar.path
    # A developer's Maven repository may be half filled (a .pom without its .jar): only bytes with the digest count.
    content = local.read_bytes() if _matches(local, jar) else _fetch(jar, machine, folder)
    if not _matches(target, jar):
        target.unlink(missing_ok=True)  # it was cut short, or it is another build
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
            with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 -- the operator's URL
                content: bytes = answer.read()
        except urllib.error.HTTPError as refusal:
            cause = f"HTTP {refusal.code}"
            refusal.close()
            if refusal.code < http.client.INTERNAL_SERVER_ERROR:
                break  # it will not be there the next time either
            continue
        except (OSError, ValueError, http.client.HTTPException) as failure:
            cause = str(getattr(failure, "reason", failure)) or type(failure).__name__
            continue
        if hashlib.sha256(content).hexdigest() != jar.sha256:
            raise PipelineError(
                f"{machine.repository} gave other bytes than the pinned {jar.name} ({len(content)} B): {advice}."
            )
        return content
    raise PipelineError(f"cannot fetch {jar.name} from {machine.repository} ({cause}): {advice}.")


def _matches(file: Path, jar: Jar) -> bool:
    try:
        if file.stat().st_size != jar.size:
            return False
        with file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False
