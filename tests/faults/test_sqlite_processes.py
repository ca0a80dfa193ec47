"""Many processes on one SQLite file."""

import random
import signal
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import headrace
from faults.children import mixed_load
from faults.polling import PATIENCE, until
from faults.processes import Child, ChildProcesses
from headrace.testing.audit_log import AuditEntry, check_claims, check_commits

PROCESSES = 16
DIE_IN_CHECKPOINT = 4
KILLED = 3
LINES = 200
LOG_LIMIT = 64 * 1024
# Three pages: the row, its index, the topic's head.
LEAST_PER_COMMIT = 3 * 4096


def test_sixteen_processes_share_a_file(
    tmp_path: Path, processes: ChildProcesses, rng: random.Random
) -> None:
    """No lock error reaches a caller, no kill harms the file, and every count is exact."""
    path = tmp_path / "flow.db"
    url = f"sqlite:///{path}"
    children = [
        processes.start(
            "mixed_load", url=url, log_limit=LOG_LIMIT, dies_in_checkpoint=n < DIE_IN_CHECKPOINT
        )
        for n in range(PROCESSES)
    ]
    doomed, others = children[:DIE_IN_CHECKPOINT], children[DIE_IN_CHECKPOINT:]
    longest = Longest(path)
    for victim in rng.sample(others, KILLED):
        longest.until(lambda v=victim: v.is_at_work(), "a child at work")
        victim.kill()
        others.remove(victim)
    for child in doomed:
        longest.until(lambda c=child: c.process.poll() is not None, "a death in a checkpoint")
        child.await_end(-signal.SIGKILL)
    longest.until(lambda: all(is_done(child) for child in others), "all to do their share")
    for child in others:
        child.finish()
    entries = processes.entries()
    with headrace.connect(url) as hr:
        check_topics(hr, entries)
        check_procs(hr, entries)
    with sqlite3.connect(path) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()
    commits = sum("topics" in entry.intent for entry in entries)
    checkpoints = sum(entry.intent.get("checkpoints", 0) for entry in entries)
    assert checkpoints > PROCESSES
    assert 0 < longest.size < commits * LEAST_PER_COMMIT / 8, "the log was not kept short"


def test_commit_is_acknowledged_although_no_checkpoint_can_start(
    sqlite_url: str, processes: ChildProcesses
) -> None:
    """A failure after COMMIT is not reported as if nothing had been written."""
    child = processes.start("no_file_handles", url=sqlite_url)
    child.process.wait(PATIENCE)
    entries = processes.entries()
    with headrace.connect(sqlite_url) as hr:
        check_topics(hr, entries)
        assert hr.topic("numbers").length() == 1
    assert [entry.outcome is not None for entry in entries] == [True], child.errors()


class Longest:
    """Measures the length of the write-ahead log whenever the test waits."""

    def __init__(self, path: Path) -> None:
        self._log = Path(f"{path}-wal")
        self.size = 0

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            # There is no log yet, or the last one to close has just removed it.
            with suppress(FileNotFoundError):
                self.size = max(self.size, self._log.stat().st_size)
            return condition()

        until(looked, what)


def is_done(child: Child) -> bool:
    return child.is_at_work() and child.lines() >= LINES


def check_topics(hr: headrace.Headrace, entries: Sequence[AuditEntry]) -> None:
    topics = {info.name: hr.range(info.name) for info in hr.topics.list()}
    check_commits([entry for entry in entries if "topics" in entry.intent], topics)


def check_procs(hr: headrace.Headrace, entries: Sequence[AuditEntry]) -> None:
    claims: dict[str, list[AuditEntry]] = defaultdict(list)
    for entry in entries:
        if "proc" in entry.intent:
            claims[entry.intent["proc"]].append(entry)
    assert set(mixed_load.SHARED) < set(claims)
    for info in hr.procs.list():
        check_claims(claims[info.name], info.position)
