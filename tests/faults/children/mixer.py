"""Does a bit of everything on a SQLite file that others use too, until it is terminated."""

import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import threading
from pathlib import Path

import headrace
from faults.children import committer, worker
from faults.waiting import orphanhood
from headrace.drivers.sqlite import connections
from headrace.testing.ledger import Ledger, check_order

SHARED = ("shared-a", "shared-b")


def main(url: str, ledger: str, name: str, log_limit: int, dies_in_checkpoint: bool) -> None:
    connections.WAL_BYTES = log_limit
    is_over, is_orphan = threading.Event(), orphanhood()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    checkpoints = watch_checkpoints(fatal=3 if dies_in_checkpoint else None)
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        procs = [worker.make(hr, proc, "shared", timeout=0.5) for proc in SHARED]
        procs.append(worker.make(hr, name, name))
        for number in itertools.count():
            if is_over.is_set() or is_orphan():
                break
            call = f"{name}-{number}"
            match random.randrange(4):
                case 0:
                    committer.commit(hr, book, call, random.choice([["shared"], ["shared", name]]))
                case 1:
                    committer.commit(hr, book, call, [name] * 3)
                case 2:
                    claim = random.choice(procs).claim(3)
                    if claim is not None:
                        worker.settle(claim, book, call, "ack")
                case 3:
                    read(hr, name)
        book.intend(f"{name}-end", checkpoints=sum(checkpoints))


def read(hr: headrace.Headrace, name: str) -> None:
    """What is read is always whole, whoever writes and checkpoints meanwhile."""
    known = {info.name for info in hr.topics()}
    if name in known:
        check_order(hr.range(name))
    if "shared" in known:
        newest = hr.revrange("shared", limit=20)
        assert len({record.seq for record in newest}) == len(newest)


def watch_checkpoints(fatal: int | None) -> list[bool]:
    """Note of each checkpoint whether it was complete; during the fatal one, die.

    All of them keep the rule that nobody can commit meanwhile: the write lock is ours.
    """
    checkpoint, connect = connections.Connections.checkpoint, connections.Connections.open
    done: list[bool] = []

    def watched(self: connections.Connections, writer: sqlite3.Connection) -> bool:
        def check_lock(statement: str) -> None:
            if "wal_checkpoint" in statement and not writer.in_transaction:
                unlocked.append(statement)

        unlocked: list[str] = []
        if self._checkpointer is not None:
            self._checkpointer.set_trace_callback(check_lock)
        if len(done) == fatal:
            end = (os.getpid(), signal.SIGKILL)
            threading.Timer(random.uniform(0, 0.002), os.kill, end).start()
        done.append(checkpoint(self, writer))
        assert not unlocked, "a checkpoint without the write lock"
        return done[-1]

    def opened(self: connections.Connections) -> sqlite3.Connection:
        connection = connect(self)
        [pages] = connection.execute("pragma wal_autocheckpoint").fetchone()
        assert pages == 0, "a connection that checkpoints by itself"
        return connection

    connections.Connections.checkpoint = watched
    connections.Connections.open = opened
    return done


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
