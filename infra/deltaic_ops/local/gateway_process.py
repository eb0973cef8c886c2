"""Decides how the local gateway runs: a process of its own, whose environment is the functions' environment.

Run as `python -m deltaic_ops.local.gateway_process --template PATH --port N --parameter NAME=VALUE ...`. It prints one
JSON line when it serves (`endpoint`) or cannot (`error`), and ends when its standard input does.
"""

import argparse
import json
import logging
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from deltaic_ops.deploy.intrinsics import TemplateError
from deltaic_ops.deploy.template import TEMPLATE, load_template
from deltaic_ops.local.environments import Environments
from deltaic_ops.local.functions import Functions
from deltaic_ops.local.gateway import Gateway
from deltaic_ops.local.lifeline import wait_for_parent

NOT_SHIPPED = ("numpy", "pandas")
"""What the layer has not and this environment has: pyarrow would import them, for 2 s and 60 MB of the first query."""


def main() -> int:
    """Serve until the parent ends or says so; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gateway_process")
    parser.add_argument("--template", type=Path, default=TEMPLATE)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parameter", action="append", default=[])
    parser.add_argument("--processes", action="store_true", help="run each function in processes of its own")
    said = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    for name in NOT_SHIPPED:
        cast("dict[str, object]", sys.modules).setdefault(name, None)  # what stands for "there is none"
    sys.stdout, announce = sys.stderr, sys.stdout  # functions log to standard output; it must not mix with ours
    with ExitStack() as parts:
        try:
            template = load_template(said.template, dict(pair.split("=", 1) for pair in said.parameter))
            functions: Functions | Environments = (
                parts.enter_context(Environments(template))
                if said.processes
                else Functions(template.functions, template.environment, restored=True)
            )
            gateway = parts.enter_context(Gateway(template, functions, host=said.host, port=said.port))
        except (OSError, RuntimeError, TemplateError) as error:
            reason = f"port {said.port}: {error.strerror}" if isinstance(error, OSError) else str(error)
            print(json.dumps({"error": reason}), file=announce, flush=True)
            return 1
        print(json.dumps({"endpoint": gateway.endpoint}), file=announce, flush=True)
        wait_for_parent()
    return 0


if __name__ == "__main__":
    sys.exit(main())
