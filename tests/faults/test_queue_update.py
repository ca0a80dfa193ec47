"""New settings for a queue while three processes work on it, one of which does not answer."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headrace
from faults.polling import until
from faults.processes import ChildProcesses
from headrace.errors import UpdateRefused

# Long enough for workers that answer. A worker that is silent for 15 s no longer counts.
LIMIT = 5.0


def test_an_update_names_workers_that_did_not_answer(
    durable_url: str, processes: ChildProcesses
) -> None:
    """Two stop and continue under the new settings. The third is stopped by SIGSTOP, is named in
    the report, and gets nothing until it knows the new settings too."""
    with headrace.connect(durable_url) as hr:
        q = hr.queues.create("q", max_attempts=5, exist_ok=True)
        children = [processes.start("queue_worker", url=durable_url) for _ in range(3)]
        for child in children:
            until(child.is_at_work, "a worker")
        until(lambda: len(hr.admin.workers("q")) == 3, "three workers")
        stuck = children[0]
        stop_between_writes(durable_url, stuck.process.pid)
        try:
            with pytest.raises(UpdateRefused) as refused:
                hr.queue("q").update(max_attempts=7, time_limit=0.5, strict=True)
            assert stuck.process.pid in [worker.pid for worker in refused.value.unanswered]
            assert q.info().version == 1

            report = hr.queue("q").update(max_attempts=7, time_limit=LIMIT)
            assert report.is_changed
            assert [worker.pid for worker in report.unanswered] == [stuck.process.pid]
            others = {child.process.pid for child in children[1:]}
            assert {worker.pid for worker in report.stopped} == others
            assert (q.info().version, q.info().settings.max_attempts) == (2, 7)

            # The others are at work again, under the new settings.
            q.push_many([{"n": n} for n in range(20)])
            until(lambda: q.stats().processed == 20, "the work of two")
            until(
                lambda: [w.version for w in hr.admin.workers("q") if w.pid in others] == [2, 2],
                "workers that know the new settings",
            )
        finally:
            os.kill(stuck.process.pid, signal.SIGCONT)
        until(
            lambda: {(w.version, w.current) for w in hr.admin.workers("q")} == {(2, "running")},
            "the third, back at work",
        )
        report = hr.queue("q").update(max_attempts=9, time_limit=30)
        assert len(report.stopped) == 3
        assert report.unanswered == ()
        q.push_many([{"n": n} for n in range(20)])
        until(lambda: q.stats().processed == 40, "the work of three")
        for child in children:
            child.finish()
        done = [entry for entry in processes.entries() if "item" in entry.intent]
        assert len(done) == 40
        assert hr.admin.workers("q") == []


def stop_between_writes(url: str, pid: int) -> None:
    """Stop a process while it is in no transaction: others would wait for its locks."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            _stop(pid)
        return
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        _stop(pid)
        while _open_transactions(connection) & _open_transactions(connection):
            os.kill(pid, signal.SIGCONT)
            _stop(pid)


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "State:\tT" in Path(f"/proc/{pid}/status").read_text(), "a stopped process")


def _open_transactions(connection: psycopg.Connection[Any]) -> set[Any]:
    """Those that wait for their client at this moment. Those of others are over by the next
    poll."""
    connection.execute("select pg_sleep(0.2)")
    return set(
        connection.execute(
            "select pid, xact_start from pg_stat_activity where state like 'idle in transaction%'"
        )
    )
