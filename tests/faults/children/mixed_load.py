"""Does a bit of everything on a SQLite file that other processes use too, until it is
terminated."""

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
from faults.polling import orphanhood
from headrace.drivers.sqlite import connections
from headrace.testing.audit_log import AuditLog, check_order

SHARED = ("shared-a", "shared-b")


def main(url: str, log_path: str, name: str, log_limit: int, dies_in_checkpoint: bool) -> None:
    connections.WAL_BYTES = log_limit
    is_over, is_orphan = threading.Event(), orphanhood()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    checkpoints = watch_checkpoints(fatal=3 if dies_in_checkpoint else None)
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        procs = [worker.make(hr, proc, "shared", timeout=0.5) for proc in SHARED]
        procs.append(worker.make(hr, name, name))
        for number in itertools.count():
            if is_over.is_set() or is_orphan():
                break
            call = f"{name}-{number}"
            match random.randrange(4):
                case 0:
                    committer.commit(hr, log, call, random.choice([["shared"], ["shared", name]]))
                case 1:
                    committer.commit(hr, log, call, [name] * 3)
                case 2:
                    claim = random.choice(procs).claim(3)
                    if claim is not None:
                        worker.settle(claim, log, call, "ack")
                case 3:
                    read(hr, name)
        log.intend(f"{name}-end", checkpoints=sum(checkpoints))


def read(hr: headrace.Headrace, name: str) -> None:
    """A read is always complete, whatever is written and checkpointed meanwhile."""
    known = {info.name for info in hr.topics.list()}
    if name in known:
        check_order(hr.range(name))
    if "shared" in known:
        newest = hr.range("shared", limit=20, reverse=True)
        assert len({record.seq for record in newest}) == len(newest)


def watch_checkpoints(fatal: int | None) -> list[bool]:
    """Record of each checkpoint whether it was complete. Die during the fatal one.

    All of them hold the write lock, so that nothing can commit meanwhile.
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
        assert pages == 0, "a connection that checkpoints automatically"
        return connection

    connections.Connections.checkpoint = watched
    connections.Connections.open = opened
    return done


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
