"""Rates, percentiles, CPU time and pages."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

SQLITE_PAGE = 4096
SETTLED_SECONDS = 10.0


def rate(call: Callable[[], int], seconds: float) -> float:
    """Records a second. ``call`` says how many it did, and is called until the time is over.

    The first call is not counted: connections, caches and prepared statements warm up.
    """
    call()
    gc.collect()
    done = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        done += call()
    return done / elapsed


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that ``percent`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def rss_mb(field: str = "VmRSS") -> float:
    """Memory of this process: ``VmRSS`` now, ``VmHWM`` at its highest.

    Not ``ru_maxrss``: a child inherits that from its parent.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def pages_read() -> float:
    """Pages that SQLite in this process has asked the system for, from file and log."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1]) / SQLITE_PAGE
    raise RuntimeError("/proc/self/io has no rchar")


class PostgresMeter:
    """What a PostgreSQL server spends on others: CPU of their backends, pages they touch."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        self._connection.close()

    def backend_cpu(self) -> float:
        """CPU seconds of all client backends of our database but our own."""
        rows = self._connection.execute(
            "select pid from pg_stat_activity where datname = current_database()"
            " and backend_type = 'client backend' and pid <> pg_backend_pid()"
        ).fetchall()
        return sum(_cpu_seconds(pid) for (pid,) in rows)

    @contextmanager
    def touching(self, schema: str) -> Iterator[list[int]]:
        """Pages of a schema's tables, indexes and TOAST touched inside, cached or not.

        Appended to the list at the end. A backend reports what it did when it leaves, so
        connect and close inside.
        """
        touched: list[int] = []
        backends, before = self._backends(), self._pages(schema)
        yield touched
        give_up = time.monotonic() + SETTLED_SECONDS
        while self._backends() > backends and time.monotonic() < give_up:
            time.sleep(0.01)
        touched.append(self._pages(schema) - before)

    def _backends(self) -> int:
        row = self._connection.execute(
            "select count(*) from pg_stat_activity where backend_type = 'client backend'"
        ).fetchone()
        return row[0] if row is not None else 0

    def _pages(self, schema: str) -> int:
        row = self._connection.execute(
            "select coalesce(sum(coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0)"
            " + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0)"
            " + coalesce(toast_blks_read, 0) + coalesce(toast_blks_hit, 0)"
            " + coalesce(tidx_blks_read, 0) + coalesce(tidx_blks_hit, 0)), 0)::bigint"
            " from pg_statio_user_tables where schemaname = %s",
            (schema,),
        ).fetchone()
        return row[0] if row is not None else 0


def cpu_seconds_by_thread(pid: int) -> dict[str, float]:
    """CPU time of a process's threads, fine enough for one that does next to nothing."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {thread.name: _cpu_seconds(pid, thread.name) for thread in threads}


def _cpu_seconds(pid: int, thread: str = "") -> float:
    """CPU time of a thread, else the first one, in nanosecond steps where the kernel has them."""
    place = f"/proc/{pid}/task/{thread}" if thread else f"/proc/{pid}"
    try:
        return int(Path(f"{place}/schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        pass
    try:
        fields = Path(f"{place}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
