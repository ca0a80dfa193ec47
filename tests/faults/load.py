"""Threads that work until they are stopped, on a server that goes away now and then."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from faults.polling import PATIENCE, until
from faults.processes import Child
from headrace.testing.audit_log import AuditLog
from headrace.testing.postgres import PrivatePostgres

# More than a client has connections: they queue for one, even when all break together.
THREADS = 12


class Load:
    """Threads that work until they are stopped. What any of them raises is raised at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS + 8)
        self._running: list[Future[None]] = []
        self.log_paths: dict[str, Path] = {}

    def is_over(self) -> bool:
        return self._over.is_set()

    def start(self, name: str, work: Callable[[AuditLog], None]) -> None:
        path = self._folder / f"{name}.ledger"
        path.touch()
        self.log_paths[name] = path

        def run() -> None:
            with AuditLog(path) as log:
                work(log)

        self._running.append(self._pool.submit(run))

    def complaints(self) -> list[BaseException]:
        return [error for run in self._running if run.done() and (error := run.exception())]

    def stop(self) -> None:
        self._over.set()
        self._pool.shutdown()


@contextmanager
def load(folder: Path) -> Iterator[Load]:
    work = Load(folder)
    try:
        yield work
    finally:
        work.stop()


def await_progress(
    work: Load, children: Sequence[Child] = (), *, seconds: float = PATIENCE
) -> None:
    """Wait until every thread has had an answer from the current server."""
    log_paths = [*work.log_paths.values(), *(child.log_path for child in children)]
    before = {path: outcomes(path) for path in log_paths}

    def late() -> dict[str, list[bytes]]:
        paths = [path for path in log_paths if outcomes(path) <= before[path] + 1]
        return {path.stem: path.read_bytes().splitlines()[-3:] for path in paths}

    def have_moved() -> bool:
        for error in work.complaints():
            raise error
        for child in children:
            # Fails if it has ended.
            child.is_at_work()
        return all(outcomes(path) > before[path] + 1 for path in log_paths)

    until(have_moved, lambda: f"all to go on, but these did not: {late()}", seconds)


def outcomes(path: Path) -> int:
    return path.read_bytes().count(b'"outcome"')


def drop_clients(server: PrivatePostgres, rng: random.Random) -> None:
    """Make the server end some of its connections, whatever they are doing."""
    server.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where random() < %s"
        " and backend_type = 'client backend' and pid <> pg_backend_pid()",
        rng.uniform(0.2, 1),
    )
