"""Starts a node in a process of its own, and starts it again when it crashes.

The spawner makes the listening socket and hands it down. It keeps the socket open, so clients that
connect while a crashed node is started again wait for a moment, and are not refused.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import threading
from time import monotonic

import msgspec

from headrace.errors import HeadraceError, NodeLost, StoreUnavailable
from headrace.local_nodes import FileLock, NodeRecord
from headrace.node.child import FAILED, SpawnReport, SpawnRequest, reported_error
from headrace.node.lifeline import Lifeline
from headrace.node.options import NodeOptions
from headrace.node.sockets import ListeningSocket

STOP_SECONDS = 60.0
RESTART_DELAY_SECONDS = 1.0
"""How long a spawner waits when a node could not be started again."""
_log = logging.getLogger("headrace")


class Spawner:
    """One node and its process. Methods may be called from any thread."""

    def __init__(
        self,
        options: NodeOptions,
        listener: ListeningSocket,
        lock: FileLock,
        *,
        restarts: int,
        timeout: float,
        is_detached: bool,
    ) -> None:
        self._options = options
        self._listener = listener
        self._lock = lock
        self._restarts = restarts
        self._timeout = timeout
        self._is_detached = is_detached
        self._lifeline = None if is_detached else Lifeline()
        self._owner = os.getpid()
        self._mutex = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = threading.Thread(target=self._watch, name="headrace-spawn", daemon=True)
        self.record: NodeRecord | None = None
        """What the node that runs now is; None before the first one is ready."""
        self.problem: HeadraceError | None = None
        """Why the node ended for good; None while it runs."""

    def start(self) -> NodeRecord:
        """Start the node and wait until it is ready; raises why it cannot run."""
        try:
            record = self._start()
        except BaseException:
            self._release()
            raise
        self._watcher.start()
        return record

    @property
    def is_running(self) -> bool:
        """Whether the node runs, or is being started again."""
        return self.record is not None and self.problem is None

    def why_ended(self) -> HeadraceError | None:
        """Why the node ended for good; None while it runs, or is being started again."""
        return self.problem

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Stop the node gracefully and wait for its end; kill it after ``timeout`` seconds.

        In a child of a fork it does nothing: the node belongs to the parent.
        """
        if os.getpid() != self._owner:
            return
        with self._mutex:
            self._stopping.set()
            process = self._process
            if process is not None and process.poll() is None:
                process.terminate()
        if process is not None:
            _wait_or_kill(process, timeout)
        if self._watcher.is_alive():
            self._watcher.join(timeout)
        self.problem = self.problem or NodeLost("the node was shut down: spawn another one.")
        self._release()

    def _start(self) -> NodeRecord:
        reader, writer = os.pipe()
        try:
            process = self._launch(writer)
            os.close(writer)
            writer = -1
            try:
                self.record = self._await_ready(process, reader)
            except BaseException:
                process.kill()
                process.wait()
                raise
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)
        return self.record

    def _launch(self, writer: int) -> subprocess.Popen[bytes]:
        fds = [*self._listener.fds, self._lock.fd, writer]
        lifeline = None if self._lifeline is None else self._lifeline.reader
        request = SpawnRequest(
            options=self._options,
            url=self._listener.url,
            listener_fds=list(self._listener.fds),
            lock_fd=self._lock.fd,
            ready_fd=writer,
            lifeline=lifeline,
        )
        with self._mutex:
            if self._stopping.is_set():
                raise NodeLost("the node was shut down while it was started again.")
            self._process = process = subprocess.Popen(
                [sys.executable, "-m", "headrace.node"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # A detached node must not keep a pipe of its spawner open.
                stderr=subprocess.DEVNULL if self._is_detached else None,
                pass_fds=[*fds, *(() if lifeline is None else (lifeline,))],
                # Signals of the terminal are for the spawner, which stops the node.
                start_new_session=True,
            )
        assert process.stdin is not None
        try:
            # By a pipe: others can see the arguments of a process, and the URL may hold a password.
            with process.stdin as stdin:
                stdin.write(msgspec.json.encode(request))
        except BrokenPipeError:
            pass  # it has ended already, and the ready pipe says why
        return process

    def _await_ready(self, process: subprocess.Popen[bytes], reader: int) -> NodeRecord:
        deadline = monotonic() + self._timeout
        away: str | None = None
        text = b""
        while True:
            seconds = deadline - monotonic()
            if seconds <= 0 or not select.select([reader], [], [], seconds)[0]:
                raise _too_slow(self._timeout, away)
            chunk = os.read(reader, 65536)
            if not chunk:
                raise NodeLost(
                    f"the node ended with code {process.wait()} before it was ready: its error is "
                    "on standard error.",
                    pid=process.pid,
                )
            text += chunk
            *lines, text = text.split(b"\n")
            for line in lines:
                report = msgspec.json.decode(line, type=SpawnReport)
                if report.ready is not None:
                    return report.ready
                if report.away is None:
                    raise reported_error(report)
                away = report.away

    def _watch(self) -> None:
        """Start the node again whenever it crashes, as often as allowed."""
        while True:
            assert self._process is not None
            code = self._process.wait()
            if self._stopping.is_set():
                return
            if code == 0:
                self.problem = NodeLost("the node was stopped by a signal: spawn another one.")
            elif code == FAILED:
                self.problem = NodeLost(
                    "the node cannot run: its error is on standard error; mend that, and spawn "
                    "another one."
                )
            elif self._restarts <= 0:
                self.problem = NodeLost(f"the node ended with code {code}: spawn another one.")
            else:
                self._restarts -= 1
                self._restart(code)
            if self.problem is not None:
                # Clients that connect are refused from now on, and do not wait for nothing.
                self._release()
                return

    def _restart(self, code: int) -> None:
        _log.warning("the node ended with %d and is started again", code, extra={"action": "spawn"})
        while (error := self._try_start()) is not None and not self._stopping.is_set():
            if self._restarts <= 0 or not isinstance(error, StoreUnavailable | NodeLost):
                self.problem = error
                _log.error("the node cannot be started again: %s", error, extra={"action": "spawn"})
                return
            self._restarts -= 1
            _log.warning(
                "the node could not be started again: %s; the next try follows",
                error,
                extra={"action": "spawn"},
            )
            self._stopping.wait(RESTART_DELAY_SECONDS)

    def _try_start(self) -> HeadraceError | None:
        """Start the node; returns why it could not be started."""
        try:
            self._start()
        except HeadraceError as error:
            return error
        except OSError as error:  # no descriptors, memory or processes are left, for example
            return NodeLost(f"no process could be started for the node: {error.strerror}.")
        return None

    def _release(self) -> None:
        self._listener.close()
        self._lock.release()
        if self._lifeline is not None:
            self._lifeline.cut()


def _wait_or_kill(process: subprocess.Popen[bytes], timeout: float) -> None:
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _too_slow(timeout: float, away: str | None) -> HeadraceError:
    if away is not None:
        return StoreUnavailable(f"the store of the node is away: {away}")
    return NodeLost(
        f"the node was not ready within {timeout:g} s: give it more time with timeout=."
    )
