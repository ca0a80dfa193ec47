"""The waiting end of the live case: ``python -m bench.cases.live_receiver KIND WHERE TOPIC``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

IDLE_MS = 120_000


def main(kind: str, where: str, topic: str) -> None:
    for body in _bodies(kind, where, topic):
        received = time.monotonic_ns()  # CLOCK_MONOTONIC is the same in all processes
        line = {"latency": received - body["sent"], "warm": body["warm"]}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def _bodies(kind: str, where: str, topic: str) -> Iterator[dict[str, Any]]:
    if kind in ("redis", "hiredis"):
        from bench.peers.redis_streams import RedisServer

        server = RedisServer(int(where), durability="", version="")
        yield from server.stream(topic, in_c=kind == "hiredis").follow(IDLE_MS)
    else:
        import headrace

        with headrace.connect(where) as hr:
            for record in hr.live(topic, mode="live"):
                yield record.body


if __name__ == "__main__":
    main(*sys.argv[1:])
