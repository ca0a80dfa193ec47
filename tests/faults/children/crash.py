"""Runs one crash case several times, each in a process that dies at one point of it."""

import json
import os
import signal
import sys

import headrace
from faults.children.forks import await_end, fork
from faults.crash_cases import CASES


def die(url: str, case: str, mark: str, point: int | str) -> None:
    """Run the case and be killed at the point."""
    played = CASES[case]

    def probe(operation: str, at: int | str) -> None:
        if operation == played.operation and at == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with headrace.connect(url) as hr:
        hr._store.probe = probe
        played.act(hr, mark)


def main(url: str, log_path: str, name: str, case: str, marks: list[tuple[str, int | str]]) -> None:
    for mark, point in marks:
        await_end(fork(lambda s=mark, p=point: die(url, case, s, p)), -signal.SIGKILL)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
