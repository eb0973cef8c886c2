"""Test that jars are downloaded once, must match their digest, and then need no network."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from deltaic_ops.local.embedded import free_port
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.jars import DELTA, S3A, Jar, ensure_jars
from deltaic_terminal.environment import Machine, machine
from served import served


def a_jar(artifact: str, content: bytes) -> Jar:
    return Jar("org.example", artifact, "1.0", len(content), hashlib.sha256(content).hexdigest())


CONTENTS = {f"part-{number}": bytes([number]) * 1000 for number in range(12)}
JARS = [a_jar(artifact, content) for artifact, content in CONTENTS.items()]


@dataclass
class Repository:
    """A Maven repository on loopback, with its requests."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """Statuses of the next responses, before files are returned."""


@pytest.fixture
def repository() -> Iterator[Repository]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            content = state.files.get(self.path)
            status = state.failures.pop(0) if state.failures else 200 if content is not None else 404
            body = content if content is not None and status == 200 else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served(Handler) as url:
        state = Repository(url)
        state.files = {f"/{jar.path}": CONTENTS[jar.artifact] for jar in JARS}
        yield state


def here(tmp_path: Path, repository: str) -> Machine:
    return machine({"HOME": str(tmp_path), "DEFAULT_ARTIFACT_REPOSITORY": repository})


def test_jars_are_downloaded_with_progress_and_only_once(tmp_path: Path, repository: Repository) -> None:
    messages: list[str] = []
    files = ensure_jars(JARS, here(tmp_path, repository.url), messages.append)
    assert [file.read_bytes() for file in files] == list(CONTENTS.values())
    assert sorted(repository.requests) == sorted(f"/{jar.path}" for jar in JARS)
    assert len(messages) == 1 + len(JARS)
    assert messages[-1].startswith("downloaded 12 of 12 jars")
    # Offline: a closed address is enough.
    assert ensure_jars(JARS, here(tmp_path, f"http://127.0.0.1:{free_port()}"), pytest.fail) == files
    assert {file.name for file in files[0].parent.iterdir()} == {jar.name for jar in JARS}


def test_damaged_jar_is_downloaded_again(tmp_path: Path, repository: Repository) -> None:
    files = ensure_jars(JARS, here(tmp_path, repository.url), lambda _: None)
    files[3].write_bytes(b"x" * JARS[3].size)
    files[4].write_bytes(b"short")
    repository.requests.clear()
    assert ensure_jars(JARS, here(tmp_path, repository.url), lambda _: None) == files
    assert sorted(repository.requests) == sorted([f"/{JARS[3].path}", f"/{JARS[4].path}"])
    assert files[3].read_bytes() == CONTENTS["part-3"]


def test_other_bytes_than_the_pinned_ones_are_refused_and_not_stored(tmp_path: Path, repository: Repository) -> None:
    repository.files[f"/{JARS[0].path}"] = b"y" * 1000
    with pytest.raises(PipelineError, match=r"returned another part-0-1\.0\.jar than the pinned one") as refusal:
        ensure_jars(JARS[:1], here(tmp_path, repository.url), lambda _: None)
    assert "\n" not in refusal.value.message
    assert list((tmp_path / ".cache" / "deltaic" / "jars").iterdir()) == []


@pytest.mark.slow
def test_error_for_an_unreachable_repository_has_artifact_folder_and_variable(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PipelineError) as refusal:
        ensure_jars(JARS[:1], here(tmp_path, address), lambda _: None)
    for part in ("part-0-1.0.jar", address, str(tmp_path / ".cache/deltaic/jars"), "DEFAULT_ARTIFACT_REPOSITORY"):
        assert part in refusal.value.message
    assert "\n" not in refusal.value.message


def test_repository_without_the_jar_gets_one_request(tmp_path: Path, repository: Repository) -> None:
    del repository.files[f"/{JARS[0].path}"]
    with pytest.raises(PipelineError, match=r"HTTP 404"):
        ensure_jars(JARS[:1], here(tmp_path, repository.url), lambda _: None)
    assert repository.requests == [f"/{JARS[0].path}"]


def test_a_passing_failure_is_tried_again(tmp_path: Path, repository: Repository) -> None:
    repository.failures = [503]
    (file,) = ensure_jars(JARS[:1], here(tmp_path, repository.url), lambda _: None)
    assert file.read_bytes() == CONTENTS["part-0"]


def test_maven_s_own_repository_serves_what_it_has_whole(tmp_path: Path, repository: Repository) -> None:
    whole, half = (tmp_path / ".m2" / "repository" / jar.path for jar in JARS[:2])
    for file, content in ((whole, CONTENTS["part-0"]), (half, b"")):
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    ensure_jars(JARS[:2], here(tmp_path, repository.url), lambda _: None)
    assert repository.requests == [f"/{JARS[1].path}"]


def test_the_cache_folder_can_be_named(tmp_path: Path) -> None:
    assert machine({"HOME": "/h", "DELTAIC_CACHE": str(tmp_path)}).cache == tmp_path
    assert machine({"HOME": "/h", "XDG_CACHE_HOME": "/x"}).cache == Path("/x/deltaic")
    assert machine({"HOME": "/h"}).cache == Path("/h/.cache/deltaic")


def test_the_pins_are_two_for_delta_and_a_small_set_for_s3a() -> None:
    jars = [*DELTA, *S3A]
    assert (len(DELTA), len(S3A)) == (2, 34)
    assert len({jar.path for jar in jars}) == 36
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert sum(jar.size for jar in jars) < 20_000_000
    assert DELTA[0].path == "io/delta/delta-spark_4.1_2.13/4.2.0/delta-spark_4.1_2.13-4.2.0.jar"
