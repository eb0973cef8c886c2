"""Start an emulator with the parts: `python -m emulators.parts localemu` (or `localstack`)."""

import sys

from emulators.parts import dynamodb, formation, gateway, processes, rights, streams
from emulators.parts.emulator import Emulator


def main(name: str) -> None:
    """Put the parts in their places and hand over to the emulator's own start."""
    emulator = Emulator(name)
    answers = streams.Streams()
    processes.install(emulator, answers)
    gateway.install(emulator, answers)
    formation.install(emulator)
    rights.install(emulator)
    dynamodb.install(emulator)
    emulator.module("runtime.main").main()


if __name__ == "__main__":
    main(sys.argv[1])
