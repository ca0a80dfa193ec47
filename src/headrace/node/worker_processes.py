"""The worker processes of a node: started, restarted when they crash, and ended with the node.

They open the store themselves, so their work costs the node nothing. Only a store in memory cannot
be opened by another process: there they are clients of the node.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from time import monotonic

from headrace.errors import UnsupportedStore
from headrace.node.lifeline import VARIABLE, Lifeline
from headrace.node.start_pipe import VARIABLE as START_VARIABLE
from headrace.node.start_pipe import StartPipe

FIRST_DELAY = 1.0
MAX_DELAY = 30.0
STEADY_SECONDS = 60.0
"""A process that ran for this long is restarted without a longer delay."""
START_SECONDS = 10.0
"""How long a node waits for its workers before it reports that it is ready."""
USAGE_ERROR = 2
"""The exit code of a command that was called wrongly: it would fail again."""
_log = logging.getLogger("headrace")

OnGiveUp = Callable[[str], None]


class WorkerProcesses:
    """Runs commands of ``headrace`` as long as the node runs.

    ``on_give_up`` is called with a sentence if a command cannot work, however often it is started.
    ``on_started`` is called when all commands have started, or ``start_seconds`` have passed; not
    if one of them cannot work. Both are called in threads.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        environment: Mapping[str, str],
        on_give_up: OnGiveUp,
        *,
        on_started: Callable[[], None] = lambda: None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self._lifeline = Lifeline()
        self._is_over = threading.Event()
        self._on_started = on_started
        self._lock = threading.Lock()
        self._starting = len(commands)
        self._workers = [
            _WorkerProcess(
                command,
                environment,
                self._lifeline,
                self._is_over,
                on_give_up=on_give_up,
                on_started=self._one_started,
                start_seconds=start_seconds,
            )
            for command in commands
        ]

    def start(self) -> None:
        """Start all processes."""
        for worker in self._workers:
            worker.start()
        if not self._workers:
            self._on_started()

    def _one_started(self) -> None:
        with self._lock:
            self._starting -= 1
            is_last = self._starting == 0
        if is_last:
            self._on_started()

    def stop(self, grace: float) -> None:
        """Ask all to stop, and kill those that still run after ``grace`` seconds."""
        self._is_over.set()
        for worker in self._workers:
            worker.terminate()
        deadline = monotonic() + grace
        for worker in self._workers:
            worker.join(max(deadline - monotonic(), 0.0))
        self._lifeline.cut()

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [worker.process.pid for worker in self._workers if worker.process is not None]


class _WorkerProcess(threading.Thread):
    """Starts one command again and again, until the node is over."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        lifeline: Lifeline,
        is_over: threading.Event,
        *,
        on_give_up: OnGiveUp,
        on_started: Callable[[], None],
        start_seconds: float,
    ) -> None:
        super().__init__(name="headrace-worker-process", daemon=True)
        self._command = command
        self._environment = environment
        self._lifeline = lifeline
        self._is_over = is_over
        self._on_give_up = on_give_up
        self._on_started: Callable[[], None] | None = on_started
        self._start_seconds = start_seconds
        self._problem = ""
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        delay = FIRST_DELAY
        words = " ".join(self._command)
        while True:
            started = monotonic()
            code = self._run_once()
            if code is None:
                return
            if code == USAGE_ERROR:
                why = self._problem or "its error is above."
                self._on_give_up(f"headrace {words} cannot run: {why}")
                return
            delay = FIRST_DELAY if monotonic() - started > STEADY_SECONDS else delay
            # A command that ends without an error did so on purpose, and is to begin again.
            pause = 0.0 if code == 0 else delay
            if code != 0:
                _log.warning(
                    "headrace %s ended with %d: it starts again in %g s",
                    *(words, code, pause),
                    extra={"action": "restart_worker"},
                )
                delay = min(delay * 2, MAX_DELAY)
            if self._is_over.wait(pause):
                return

    def _run_once(self) -> int | None:
        """Run the command to its end; None if the node is over."""
        pipe = StartPipe()
        try:
            process = self._launch(pipe.writer)
            if process is None:
                return None
            pipe.close_writer()
            self._problem = pipe.read(self._start_seconds)
        finally:
            pipe.close()
        if not self._problem:
            self._report_started()
        code = process.wait()
        if code != USAGE_ERROR:
            self._report_started()
        return None if self._is_over.is_set() else code

    def _report_started(self) -> None:
        report, self._on_started = self._on_started, None
        if report is not None and not self._is_over.is_set():
            report()

    def _launch(self, start_fd: int) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_over.is_set():
                return None
            self.process = process = subprocess.Popen(  # noqa: S603  # the user's own command
                [sys.executable, "-m", "headrace", *self._command],
                stdin=subprocess.DEVNULL,
                env={
                    **self._environment,
                    VARIABLE: str(self._lifeline.reader),
                    START_VARIABLE: str(start_fd),
                },
                pass_fds=[self._lifeline.reader, start_fd],
                # Ctrl-C at a terminal is for the node, which stops its workers in order.
                process_group=0,
            )
        return process

    def terminate(self) -> None:
        with self._lock:
            if self.process is not None:
                self.process.terminate()

    def join(self, timeout: float | None = None) -> None:
        if self.ident is None:
            return
        super().join(timeout)
        if self.is_alive() and self.process is not None:
            self.process.kill()
            super().join()


def worker_commands(
    apps: Sequence[str],
    pipelines: Sequence[str],
    *,
    url: str,
    concurrency: int | None = None,
    restart_after: int | None = None,
) -> list[list[str]]:
    """The commands of worker processes for apps: one for its tasks, or one for its pipelines."""
    options = [
        *(() if concurrency is None else ("--concurrency", str(concurrency))),
        *(() if not restart_after else ("--max-items", str(restart_after))),
    ]
    # Spark's executors open the store themselves, which they cannot if it is in memory.
    engine = ["--engine", "inline"] if url.startswith("memory:") else []
    return [
        *(["worker", app, *options] for app in apps),
        *(["pipeline", "run", app, *engine] for app in pipelines),
    ]


def require_command() -> None:
    """Check that worker processes can be started: they are commands of ``headrace``."""
    if not (find_spec("typer") and find_spec("rich")):
        raise UnsupportedStore(
            "worker processes need the command line: pip install 'headrace[cli]'."
        )


def worker_environment(url: str) -> dict[str, str]:
    """The environment of a worker for a store. A URL may hold a password, so it is no argument."""
    return {**os.environ, "HEADRACE_URL": url}
