"""Main module of the local gateway's process, whose environment variables are those of the functions.

Run as `python -m deltaic_ops.local.gateway_process --template PATH --listener FD --parameter NAME=VALUE ...`, where FD
is a bound socket. The process loads its functions and prints a JSON line with `endpoint`, or with `error` if that
fails. When it reads a line from standard input, it opens the port and prints another line. It ends with this input.
"""

import argparse
import json
import logging
import os
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, cast

from deltaic.http.observability import logger as logger_of_functions

from deltaic_ops.deploy.intrinsics import TemplateError
from deltaic_ops.deploy.sam_template import TEMPLATE, load_template
from deltaic_ops.local.access_logs import request_log
from deltaic_ops.local.functions import Functions
from deltaic_ops.local.gateway import Gateway

logger = logging.getLogger(__name__)

NOT_SHIPPED = ("numpy", "pandas")
"""Packages that are not in the layer: if pyarrow could import them, the first query would need 2 s and 60 MB more."""


def main() -> int:
    """Serve until the parent process ends or closes standard input; return the exit code."""
    parser = argparse.ArgumentParser(prog="gateway_process")
    parser.add_argument("--template", type=Path, default=TEMPLATE)
    parser.add_argument("--listener", type=int, required=True)
    parser.add_argument("--parameter", action="append", default=[])
    parser.add_argument("--logs", type=Path, help="write the request log to this folder")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    for name in NOT_SHIPPED:
        cast("dict[str, object]", sys.modules).setdefault(name, None)  # None makes an import fail
    sys.stdout, output = sys.stderr, sys.stdout  # functions log to standard output; it must not mix with ours
    with socket.socket(fileno=options.listener) as listener, ExitStack() as parts:
        os.environ["AWS_ENDPOINT_URL_LAMBDA"] = f"http://127.0.0.1:{listener.getsockname()[1]}"  # this gateway
        try:
            template = load_template(options.template, dict(pair.split("=", 1) for pair in options.parameter))
            functions = Functions(template.functions, template.environment)
            functions.load_all()
            if options.logs is not None:
                _log_requests(options.logs)
        except Exception as error:  # a function's module can raise anything
            logger.exception("the functions cannot be loaded")
            ours = isinstance(error, RuntimeError | TemplateError)
            _report(output, error=str(error) if ours else f"{type(error).__name__}: {error}")
            return 1
        gateway = Gateway(template, functions, listener=listener)
        _report(output, endpoint=gateway.endpoint)
        if not sys.stdin.buffer.readline():
            return 0
        try:
            parts.enter_context(gateway)
        except OSError as error:
            _report(output, error=f"port {listener.getsockname()[1]}: {error.strerror}")
            return 1
        _report(output, endpoint=gateway.endpoint)
        sys.stdin.buffer.read()  # the kernel closes it when the parent ends or is killed
    return 0


def _log_requests(folder: Path) -> None:
    handler = request_log(folder)
    handler.setFormatter(logger_of_functions().registered_formatter)
    logger_of_functions().addHandler(handler)


def _report(output: IO[str], **fields: str) -> None:
    with suppress(BrokenPipeError):  # the parent has ended, so standard input is closed too
        print(json.dumps(fields), file=output, flush=True)


if __name__ == "__main__":
    sys.exit(main())
