"""Runs a pipeline until it is done or killed, at a point of an operation or from outside."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import headrace

COUNT = 10
TIMEOUT = 0.3
BAD = 17
TRIES = 4
"""So many runners in a row must die with a record before it is suspected."""


def work(body: dict[str, Any]) -> dict[str, Any]:
    """Takes some time, so that it can be killed in the middle."""
    if body["n"] == BAD:
        raise ValueError("bad")
    time.sleep(0.001)
    return {"n": body["n"]}


def make(hr: headrace.Headrace, count: int = COUNT) -> headrace.Pipeline:
    """The same pipeline in all processes. A record that it cannot process becomes a dead letter."""
    return hr.pipelines.create(
        "p",
        source="in",
        to="out",
        processor="faults.children.pipeline:work",
        count=count,
        lease=TIMEOUT,
        max_attempts=TRIES,
        on_exhausted="dead_letter",
    )


def main(
    url: str,
    log_path: str,
    name: str,
    point: tuple[str, int | str, int] | None = None,
) -> None:
    with headrace.connect(url) as hr:
        made = make(hr)
        if point is not None:
            hr._store.probe = _killer(*point)
        with Path(log_path).open("a") as log:
            log.write("begun\n")
        made.run_once(engine="inline")


def _killer(operation: str, place: int | str, times: int) -> Any:
    """Ends this process when it reaches the point for the given time."""
    left = times

    def probe(current: str, at: int | str) -> None:
        nonlocal left
        if current == operation and at == place:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    return probe


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
