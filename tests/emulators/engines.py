"""Install the emulators once in the user's cache, from pinned versions and hashes.

LocalEmu is the open fork of LocalStack. The lists of packages are next to this module.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deltaic.errors import Unavailable
from deltaic_ops.localstack.deployment import PYTHON
from deltaic_terminal.environment import machine

_INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Engine:
    """An emulator that runs as a process of this machine."""

    name: str
    module: str
    """Package of the engine, and prefix of its addresses."""
    version: str

    @property
    def folder(self) -> Path:
        """Return the folder of the engine's software."""
        return machine().cache / f"{self.name}-{self.version}"

    @property
    def python(self) -> Path:
        """Python of the emulator."""
        return self.folder / "emulator" / "bin" / "python"

    @property
    def functions_python(self) -> Path:
        """Python of the functions, which contains only AWS's client; the layer has all other packages."""
        return self.folder / "functions" / "bin" / "python"


LOCALEMU: Final = Engine("localemu", "localemu", "1.3.2")
LOCALSTACK_CORE: Final = Engine("localstack-core", "localstack", "2026.3.0")
ENGINES: Final = {engine.name: engine for engine in (LOCALEMU, LOCALSTACK_CORE)}


def installed(engine: Engine) -> bool:
    """Return whether the software is installed completely."""
    return (engine.folder / "complete").is_file()


def install(engine: Engine) -> None:
    """Install the software unless it is installed, and replace an incomplete installation; raises Unavailable."""
    cache = engine.folder.parent
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / f"{engine.name}.lock"):
        if installed(engine):
            return
        shutil.rmtree(engine.folder, ignore_errors=True)
        python = _python()
        for name, package_list in (("emulator", engine.name), ("functions", "functions")):
            _uv("venv", "--quiet", "--no-project", "--python", python, str(engine.folder / name))
            requirements = str(Path(__file__).with_name(f"{package_list}.txt"))
            hashed = ("--require-hashes", "--build-constraints", requirements, requirements)
            _uv("pip", "sync", "--quiet", "--python", str(engine.folder / name / "bin" / "python"), *hashed)
        (engine.folder / "complete").touch()


def _python() -> str:
    """Return the Python 3.13 for uv: an installed one, otherwise one that uv downloads."""
    path = _run(_uv_path(), "python", "find", "--no-project", PYTHON)
    if path.returncode == 0:
        return path.stdout.strip()
    # uv stops at the first broken shim of pyenv and does not search further.
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = sorted(root.glob(f"versions/{PYTHON}.*/bin/python"))
    if candidates:
        return str(candidates[-1])
    fetched = _run(_uv_path(), "python", "install", PYTHON)
    if fetched.returncode != 0:
        raise Unavailable(
            f"there is no Python {PYTHON} here, on which functions run, and uv could not fetch one "
            f"({_last_line(fetched)}): install it, e.g. by `uv python install {PYTHON}`"
        )
    return PYTHON


def _uv(*arguments: str) -> None:
    done = _run(_uv_path(), *arguments)
    if done.returncode != 0:
        raise Unavailable(f"`uv {' '.join(arguments[:2])}` failed: {_last_line(done)}; look whether PyPI is reachable")


def _uv_path() -> str:
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise Unavailable("uv is needed, which fetches the emulator: `pip install uv`")
    return uv


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "UV_PYTHON"}}
    return subprocess.run(
        command,
        env=environment,
        cwd=machine().cache,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
