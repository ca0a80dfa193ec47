"""Threads that work until they are told to stop, on a server that goes away now and then."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from faults.crew import Child
from faults.waiting import PATIENCE, until
from headrace.testing.ledger import Ledger
from headrace.testing.postgres import PrivatePostgres

# More than a client has connections: they queue for one, also when all are broken at once.
THREADS = 12


class Load:
    """Threads at work until told to stop; what any of them raises comes out at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(THREADS + 8)
        self._running: list[Future[None]] = []
        self.ledgers: dict[str, Path] = {}

    def is_over(self) -> bool:
        return self._over.is_set()

    def start(self, name: str, work: Callable[[Ledger], None]) -> None:
        path = self._folder / f"{name}.ledger"
        path.touch()
        self.ledgers[name] = path

        def run() -> None:
            with Ledger(path) as book:
                work(book)

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
    """Wait until everybody has had an answer from the server as it is now."""
    ledgers = [*work.ledgers.values(), *(child.ledger for child in children)]
    before = {path: outcomes(path) for path in ledgers}

    def late() -> dict[str, list[bytes]]:
        paths = [path for path in ledgers if outcomes(path) <= before[path] + 1]
        return {path.stem: path.read_bytes().splitlines()[-3:] for path in paths}

    def have_moved() -> bool:
        for error in work.complaints():
            raise error
        for child in children:
            # Fails if it has ended.
            child.is_at_work()
        return all(outcomes(path) > before[path] + 1 for path in ledgers)

    until(have_moved, lambda: f"all to go on, but these did not: {late()}", seconds)


def outcomes(path: Path) -> int:
    return path.read_bytes().count(b'"outcome"')


def drop_clients(server: PrivatePostgres, rng: random.Random) -> None:
    """Make the server end some of its connections, wherever they are."""
    server.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where random() < %s"
        " and backend_type = 'client backend' and pid <> pg_backend_pid()",
        rng.uniform(0.2, 1),
    )
