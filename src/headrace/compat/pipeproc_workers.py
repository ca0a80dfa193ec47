"""The worker processes of a spawned PipeProc node, kept by the client that spawned it.

They open the store itself, and run the system procs whose processors are named. Only that client
starts code in them, so a node executes nothing that a request or the database names.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from time import monotonic

import msgspec

from headrace.compat.pipeproc_worker_messages import (
    RunRequest,
    StopRequest,
    WorkerAnswer,
    WorkerRequest,
    WorkerSetup,
)
from headrace.errors import (
    HeadraceError,
    InvalidOption,
    InvalidProcessor,
    NodeLost,
    NotConnected,
    SparkUnavailable,
)
from headrace.model.pipelines import EngineName
from headrace.node.worker_processes import FIRST_DELAY, MAX_DELAY, STEADY_SECONDS
from headrace.pipelines.java import find_java
from headrace.pipelines.store_location import absolute_url

START_SECONDS = 120.0
"""How long a worker may need to start its engine."""
LOAD_SECONDS = 60.0
"""How long a worker may need to import a processor, and to finish the logs of the one before."""
END_SECONDS = 10.0
"""How long a worker that closed its pipe may need to end."""
GRACE_SECONDS = 30.0
TRIES = 3
"""How often a system proc is sent to a worker that ends on purpose just then."""
_log = logging.getLogger("headrace")


class _Restarting(InvalidProcessor):
    """The process had reached its limit of logs when a request came."""


class PipeProcWorkers:
    """Worker processes, each started with its first system proc. For any thread."""

    def __init__(
        self, url: str, node_url: str, *, processes: int, concurrency: int, restart_after: int
    ) -> None:
        # Another process cannot open a store in memory: there, workers are clients of the node.
        is_memory = url.startswith("memory:")
        # Workers start later, perhaps from another directory.
        worker_url = node_url if is_memory else absolute_url(url)

        def setup() -> WorkerSetup:
            return WorkerSetup(
                url=worker_url,
                engine="inline" if is_memory else choose_engine(),
                concurrency=concurrency,
                restart_after=restart_after,
            )

        self._lock = threading.Lock()
        self._workers = [_Worker(setup) for _ in range(processes)]
        self._owners: dict[str, _Worker] = {}

    def run(self, request: RunRequest) -> None:
        """Run a system proc on one of the workers; raises why it cannot run."""
        with self._lock:
            worker = self._owners.get(request.name) or min(self._workers, key=self._load_of)
            self._owners[request.name] = worker
        try:
            worker.run(request)
        finally:
            with self._lock:
                if not worker.has(request.name):
                    self._owners.pop(request.name, None)

    def drop(self, name: str) -> None:
        """Stop a system proc, if a worker runs it."""
        with self._lock:
            worker = self._owners.pop(name, None)
        if worker is not None:
            worker.drop(name)

    def stop(self) -> None:
        """Stop all processes when their current logs are acked; kill them after a while."""
        for worker in self._workers:
            worker.terminate()
        deadline = monotonic() + GRACE_SECONDS
        for worker in self._workers:
            worker.join(deadline)

    def _load_of(self, worker: _Worker) -> int:
        return sum(owner is worker for owner in self._owners.values())


class _Worker:
    """One process, and what it runs. It is started again whenever it ends."""

    def __init__(self, setup: Callable[[], WorkerSetup]) -> None:
        self._setup = setup
        self._requests: dict[str, RunRequest] = {}
        self._is_over = threading.Event()
        # One request at a time, and none while the process is started.
        self._lock = threading.Lock()
        self._start_lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None

    def has(self, name: str) -> bool:
        return name in self._requests

    def run(self, request: RunRequest) -> None:
        with self._lock:
            for tries_left in reversed(range(TRIES)):
                try:
                    if self._is_alive():
                        self._ask(request)
                    else:
                        self._start(request)
                    break
                except _Restarting:
                    if not tries_left:
                        raise
            self._requests[request.name] = msgspec.structs.replace(request, is_new=False)

    def drop(self, name: str) -> None:
        with self._lock:
            self._requests.pop(name, None)
            if self._is_alive():
                # If the process ends instead, it does not run there again.
                with contextlib.suppress(NodeLost, _Restarting):
                    self._ask(StopRequest(name=name))

    def terminate(self) -> None:
        self._is_over.set()
        with self._start_lock:
            if self._process is not None:
                self._process.terminate()

    def join(self, deadline: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            process.wait(max(deadline - monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._watcher is not None:
            self._watcher.join()
        with self._lock:
            _close_pipes(process)

    def _is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self, first: RunRequest | None = None) -> None:
        """Start the process with a new system proc, and with all that it ran before."""
        if self._process is not None:
            _close_pipes(self._process)
        with self._start_lock:
            if self._is_over.is_set():
                raise NotConnected("the node was shut down: spawn another one.")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.compat.pipeproc_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # It imports what this process can import.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # Ctrl-C at a terminal is for this process, which stops its workers.
                process_group=0,
            )
        if self._watcher is None:
            self._watcher = threading.Thread(
                target=self._watch, name="headrace-pipeproc-worker", daemon=True
            )
            self._watcher.start()
        # The URL may hold a password, so it is no argument.
        self._exchange(self._setup(), START_SECONDS)
        replaced = None
        try:
            if first is not None:
                self._ask(first)
                replaced = first.name
        finally:
            # Also if the new one is refused: then the one that it was to replace goes on.
            self._run_again([name for name in self._requests if name != replaced])

    def _run_again(self, names: list[str]) -> None:
        if names:
            # Another one is first next time: a low limit of logs would leave none for the rest.
            self._requests[names[0]] = self._requests.pop(names[0])
        for name in names:
            if not self._is_alive():
                return  # the watcher starts the next process
            try:
                self._ask(self._requests[name])
            except _Restarting:
                return
            except HeadraceError as error:
                _log.error(
                    *("system proc %s does not run again: %s", name, error),
                    extra={"action": "system_proc"},
                )

    def _ask(self, request: WorkerRequest) -> None:
        self._exchange(request, LOAD_SECONDS)

    def _exchange(self, message: WorkerSetup | WorkerRequest, timeout: float) -> None:
        """Send a message and read its answer. A process that does not answer is killed."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_encode(message) + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended(process, message) from None
        text = b""
        deadline = monotonic() + timeout
        while not text.endswith(b"\n"):
            seconds = deadline - monotonic()
            if seconds <= 0 or not select.select([process.stdout], [], [], seconds)[0]:
                process.kill()
                raise _problem(message, f"was not ready within {timeout:g} s")
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                raise self._ended(process, message)
            text += chunk
        msgspec.json.decode(text, type=WorkerAnswer).check()

    def _ended(
        self, process: subprocess.Popen[bytes], message: WorkerSetup | WorkerRequest
    ) -> HeadraceError:
        try:
            code = process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if self._is_over.is_set():
            return NotConnected("the node was shut down: spawn another one.")
        problem = _problem(message, f"ended its worker process with code {code}")
        return _Restarting(problem.message, **problem.details) if code == 0 else problem

    def _watch(self) -> None:
        """Start the process again whenever it ends."""
        delay = FIRST_DELAY
        while True:
            process = self._process
            assert process is not None
            started = monotonic()
            code = process.wait()
            delay = FIRST_DELAY if monotonic() - started > STEADY_SECONDS else delay
            # A process that ends without an error has reached its limit of logs.
            if code != 0 and not self._is_over.is_set():
                _log.warning(
                    *("a worker of PipeProc ended with %d: it starts again in %g s", code, delay),
                    extra={"action": "restart_worker"},
                )
            if self._is_over.wait(0 if code == 0 else delay):
                return
            delay = FIRST_DELAY if code == 0 else min(delay * 2, MAX_DELAY)
            with self._lock:
                if not self._requests:
                    # The next system proc starts it.
                    self._watcher = None
                    return
                if self._is_alive():
                    continue  # a new system proc has started it
                try:
                    self._start()
                except HeadraceError as error:
                    _log.warning(
                        *("a worker of PipeProc does not start: %s", error),
                        extra={"action": "restart_worker"},
                    )


def choose_engine() -> EngineName:
    """Spark if it is installed, with a Java that it can run on."""
    if not (find_spec("pyspark") and find_spec("pyarrow")):
        return "inline"
    try:
        find_java()
    except SparkUnavailable:
        return "inline"
    return "spark"


def _encode(message: WorkerSetup | WorkerRequest) -> bytes:
    try:
        return msgspec.json.encode(message)
    except TypeError as error:
        raise InvalidOption(
            f"the options of the system proc are not plain values: {error}.", option="options"
        ) from error


def _problem(message: WorkerSetup | WorkerRequest, what: str) -> HeadraceError:
    if isinstance(message, RunRequest):
        return InvalidProcessor(
            f"processor {message.processor!r} {what}: see standard error.", option="processor"
        )
    return NodeLost(f"a worker of the node {what}: see standard error.")


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
