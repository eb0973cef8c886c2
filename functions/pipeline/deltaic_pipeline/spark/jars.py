"""The jars that Spark needs, exactly these: pinned, fetched once, verified, then offline."""

import hashlib
import http.client
import itertools
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deltaic_terminal.environment import REPOSITORY_VARIABLE, Machine, write_once

from deltaic_pipeline.failures import PipelineError

PARALLEL = 8
ATTEMPTS = 3
TIMEOUT_SECONDS = 60
MEGABYTE = 1_000_000

AWS_SDK = "2.29.52"
"""The AWS SDK that hadoop-aws 3.4.2 was built for: 30 of its modules (9 MB) stand in for its bundle (641 MB)."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of a Maven repository, pinned to its bytes."""

    group: str
    artifact: str
    version: str
    size: int
    """Bytes."""

    sha256: str

    @property
    def name(self) -> str:
        """The file name, in the repository and in the cache."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path below a repository's root."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


DELTA = (
    Jar(
        "io.delta",
        "delta-spark_4.1_2.13",
        "4.2.0",
        8_530_499,
        "8480050a55c7e50427f3bec3af9243f98fc7cbfa453a2ef55e6ea8d0b7b121ff",
    ),
    Jar(
        "io.delta", "delta-storage", "4.2.0", 76_477, "2d84df76551f2b3cd27b120abec67ccbba324cea6ec45eb659edcc54234f99f3"
    ),
)
"""Delta 4.2.0 for Spark 4.1: the pair that EMR puts on `spark.jars` too. Its other dependencies are never loaded."""

AVRO = (
    Jar(
        "org.apache.spark",
        "spark-avro_2.13",
        "4.1.1",
        92_354,
        "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
    ),
)
"""Spark's reader of Avro files, which pyspark leaves out; what it needs it carries."""

S3A = (
    Jar(
        "org.apache.hadoop",
        "hadoop-aws",
        "3.4.2",
        936_997,
        "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9",
    ),
    Jar(
        "software.amazon.eventstream",
        "eventstream",
        "1.0.1",
        30_193,
        "0c37d8e696117f02c302191b8110b0d0eb20fa412fce34c3a269ec73c16ce822",
    ),
    Jar(
        "org.reactivestreams",
        "reactive-streams",
        "1.0.4",
        11_640,
        "f75ca597789b3dac58f61857b9ac2e1034a68fa672db35055a8fb4509e325f28",
    ),
    *(
        Jar("software.amazon.awssdk", artifact, AWS_SDK, size, sha256)
        for artifact, size, sha256 in (
            ("annotations", 13_763, "8cd8bd8afd7eca5a367f69fd87427f6d9f3e7d359962122da24d71f1963f00cd"),
            ("apache-client", 77_005, "c96494be30ecac6f0ab7a35fdd91a4c77ca8a5daf62f3d9d84644ef0f0524dc6"),
            ("arns", 15_823, "f5a4d1d9b4e4fc63c9bda49bcf1c59d23fd876b276c6b43aaca12969337303a6"),
            ("auth", 234_084, "4d8143b6198dc7a530c2ccdd813129c132b96736086c0d4fea85480b9bdbc5fe"),
            ("aws-core", 180_664, "eb560c064fbaac7e2e7f4a77ac343d3083bea0d7f6e2c69ba022d3f3e859be90"),
            ("aws-query-protocol", 69_396, "1b117672963ee5059c45f2aadb110f191b578d108d8f08d7c7a59e6c0b098a8e"),
            ("aws-xml-protocol", 102_275, "daf87b429373ad586d165003b5b1d4fe498c6472eb65ec9a9e2aa7d56f3917dd"),
            ("checksums", 69_428, "bca99ff25c9b917d6be03e5dce78ad5328e7dca485e96024fa8476e4192a800a"),
            ("checksums-spi", 8_046, "21193b9b648843dcaff493f0dd80abab9ee6871b203b9218120554698d8f7b8a"),
            ("crt-core", 17_776, "4e1f33de21b688695fec91b977ddfa99e9d376edcbad06a62b0c138c60b37de4"),
            ("endpoints-spi", 13_171, "e54f246c668d70b55cffe0c8fad18d4465e74e22db75139918bd30610093d1e6"),
            ("http-auth", 17_475, "d8aa3bd376aaec7196396e65fe8755f1fdd169e51357f8128ecdc7d23a687450"),
            ("http-auth-aws", 158_970, "7ae124e81ac0c2860bb61fdde34a388dbe823fef8509dd46a6bec805ada90308"),
            ("http-auth-aws-eventstream", 8_707, "565a4aacce955c5ffaed551f6faaaa958e9e92b2f8514c8482f664edb2bab576"),
            ("http-auth-spi", 45_764, "7a2168c5a7baa856d7ae9f9c4f7522d2db9f1361108c38f5b6ece66f249e6a2d"),
            ("http-client-spi", 87_344, "8ea61ce3b527779fbfe119e0775c4b7cfdf274a979b1e50596a634685a5b6542"),
            ("identity-spi", 30_965, "85104635abf9e5c044aaf7f8951b63efc2ef82051b5ee303571ee2e1fd8b46d0"),
            ("json-utils", 33_224, "2652cdb3668311bcff6e643c8612b9fea266423ae1ce33743c84dd7f77904311"),
            ("metrics-spi", 27_264, "1db2e3da338148ee40a716e1733c9a5b99e9e6daa4db3aa8bd7e718adafa2510"),
            ("netty-nio-client", 287_867, "07238668c9cf54531ee269fd6e2a1e2650fb75d6774d401f406c2a14f26af654"),
            ("profiles", 49_837, "fef84619d101838ba45f48d0caddb09a85d9ed8bf869095bd7d2064796856cf7"),
            ("protocol-core", 44_336, "7b32e41a3743b422d2edec1670f60b4c1e512fcd5ab7a53fef20742d6b9104d1"),
            ("regions", 904_015, "5ee0e26277c679ffa70d83923b0d5f77a53066ecde8610f28be1856947d60eaf"),
            ("retries", 66_310, "ca3752ba31399721980c6398992921ff5aa164e084b4c14484333df58c76a353"),
            ("retries-spi", 31_489, "a4218ea742fc9e07a620629d7a258bfd92b8ea3ef75f1b99193d0898ca3efe99"),
            ("s3", 3_835_574, "abaedea7e68063e9c4ab090f80d14b9884c57b50953bfe6e5acaa23025609efa"),
            ("s3-transfer-manager", 249_191, "0c9e654637247187a7e2494eb7a8799477a772a7d554cd3ae787cd3e3bae3c55"),
            ("sdk-core", 977_550, "ea8e9856569f85075a8a806d0481c4bd848c98b24fd6d706fc0b5883fc4604dc"),
            ("sts", 536_436, "6495d0457f4e4c3724d8c9c5fe4f6f98c9530a22f92449c4cca5fd03622e4edb"),
            ("third-party-jackson-core", 535_001, "eaece3eb60beb8ec09d8a4f48d5bff4110010b03cc23688bdcf2af2eb075cac6"),
            ("utils", 226_880, "f150a38f2fec14ced2de6459bfe804f647c88baa573b218646ef89b436a29d42"),
        )
    ),
)
"""What the s3a file system needs beside what pyspark carries (netty, httpclient, slf4j and hadoop-client)."""

NEEDED = (*DELTA, *AVRO, *S3A)
"""What a session on one machine has on its class path."""


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
    counter = itertools.count(1)
    report(f"fetching {len(missing)} jars ({total:.1f} MB) from {machine.repository}")
    with ThreadPoolExecutor(PARALLEL) as pool:
        for jar in _each(pool, missing, machine, folder):
            report(f"fetched {next(counter)} of {len(missing)} jars: {jar.name}")
    return files


def _each(pool: ThreadPoolExecutor, missing: Sequence[Jar], machine: Machine, folder: Path) -> Iterable[Jar]:
    """Fetch all and give each jar when it has arrived; after a failure the rest are not begun."""
    arrivals = [pool.submit(_obtain, jar, machine, folder) for jar in missing]
    try:
        for arrival in arrivals:
            yield arrival.result()
    finally:
        for arrival in arrivals:
            arrival.cancel()


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
        except urllib.error.URLError as failure:
            cause = str(failure.reason)
            continue
        except (OSError, ValueError, http.client.HTTPException) as failure:
            cause = str(failure) or type(failure).__name__
            continue
        if hashlib.sha256(content).hexdigest() != jar.sha256:
            raise PipelineError(
                f"{machine.repository} gave other bytes than the pinned {jar.name} ({len(content)} B): {advice}."
            )
        return content
    raise PipelineError(f"cannot fetch {jar.name} from {machine.repository} ({cause}): {advice}.")


def _matches(file: Path, jar: Jar) -> bool:
    """Tell whether a file is the pinned one, by size first and then by digest."""
    try:
        if file.stat().st_size != jar.size:
            return False
        with file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False
