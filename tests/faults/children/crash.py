"""Plays one scene several times, in a process each, that dies at one point of it."""

import json
import os
import signal
import sys

import headrace
from faults.children.forks import await_end, fork
from faults.scenes import SCENES


def die(url: str, scene: str, stage: str, point: int | str) -> None:
    """Play the scene and be killed at the point."""
    played = SCENES[scene]

    def probe(operation: str, at: int | str) -> None:
        if operation == played.operation and at == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with headrace.connect(url) as hr:
        hr._store.probe = probe
        played.act(hr, stage)


def main(url: str, ledger: str, name: str, scene: str, stages: list[tuple[str, int | str]]) -> None:
    for stage, point in stages:
        await_end(fork(lambda s=stage, p=point: die(url, scene, s, p)), -signal.SIGKILL)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
