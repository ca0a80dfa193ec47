"""A Spark driver with a pipeline on each of some stores. It dies when all have reached a point."""

import json
import os
import signal
import sys
import threading
from typing import Any

import headrace
from faults.children import pipeline
from headrace.pipelines import proc_runner, session

PATIENCE = 120.0


def main(
    urls: list[str], log_path: str, name: str, count: int, large: int, point: tuple[str, int | str]
) -> None:
    proc_runner.MIN_PARTITIONED_RECORDS = large
    spark = session(master="local[2]")
    meeting = threading.Barrier(len(urls), action=_die, timeout=PATIENCE)

    def probe(*at: Any) -> None:
        if at == tuple(point):
            meeting.wait()

    def run(url: str) -> None:
        with headrace.connect(url) as hr:
            made = pipeline.make(hr, count)
            hr._store.probe = probe
            made.run_once(spark=spark)

    threads = [threading.Thread(target=run, args=[url]) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
