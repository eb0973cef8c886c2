"""Run a function's process as Lambda does: AWS's client with the handler, under the Runtime API."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from emulators.parts.runtime_api import Outcome, RuntimeApi


@contextmanager
def runtime_process(
    folder: Path,
    environment: Mapping[str, str],
    *,
    handler: str = "app.handler",
    python: str = sys.executable,
    inherited: Mapping[str, str] = os.environ,
    output: IO[bytes] | None = None,
) -> Iterator[RuntimeApi]:
    """Run a handler as Lambda does, under AWS's client in a separate process; yield its Runtime API.

    `environment` goes before `inherited`; what the process prints goes to `output`, or where this one's does.
    """
    with RuntimeApi() as api:
        process = subprocess.Popen(
            [python, "-m", "awslambdaric", handler],
            cwd=folder,
            env={
                "AWS_LAMBDA_FUNCTION_NAME": folder.name,
                "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
                **inherited,
                **environment,
                "AWS_LAMBDA_RUNTIME_API": api.address,
                "_HANDLER": handler,
                "LAMBDA_TASK_ROOT": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

        def watch() -> None:
            code = process.wait()
            document = json.dumps({"errorMessage": f"Runtime exited with error: exit status {code}"}).encode()
            api.failed(Outcome("error", document, error_type="Runtime.ExitError"))

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield api
        finally:
            process.terminate()
            process.wait()
