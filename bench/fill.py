"""Fill a topic: ``python -m bench.fill URL TOPIC COUNT``."""

from __future__ import annotations

import sys

from bench.bodies import pool, slices

import headrace

A_COMMIT = 10_000


def main(url: str, topic: str, count: int) -> None:
    batches = slices(pool(), A_COMMIT)
    with headrace.connect(url, durability="relaxed") as hr:
        for done in range(0, count, A_COMMIT):
            hr.commit_many(topic, next(batches)[: count - done])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
