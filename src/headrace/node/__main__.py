"""A spawned node: ``python -m headrace.node``, started by ``headrace.spawn``."""

from __future__ import annotations

import os
import sys
import threading

import msgspec

from headrace.errors import HeadraceError
from headrace.local_nodes import FileLock
from headrace.node.child import FAILED, SpawnReport, SpawnRequest, failure_report
from headrace.node.lifeline import watch_lifeline
from headrace.node.process import NodeProcess
from headrace.node.server import STOP_SECONDS
from headrace.node.sockets import adopt


def main() -> int:
    """Run the node that the spawner describes on standard input."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SpawnRequest)
    os.set_inheritable(request.ready_fd, False)
    os.set_inheritable(request.lock_fd, False)
    report = _Reporter(request.ready_fd)
    lock = FileLock(request.lock_fd)
    lock.set_holder(os.getpid())
    listener = adopt(request.url, request.listener_fds)
    try:
        node = NodeProcess(
            request.options,
            [listener],
            lock,
            on_ready=lambda record: report(SpawnReport(ready=record), is_last=True),
            on_away=lambda reason: report(SpawnReport(away=reason)),
        )
        if request.lifeline is not None:
            watch_lifeline(request.lifeline, lambda: _end(node))
        node.run()
    except HeadraceError as error:
        report(failure_report(error), is_last=True)
        return FAILED
    return 0


class _Reporter:
    """Writes lines to the spawner, until the last one, or until it no longer reads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, line: SpawnReport, *, is_last: bool = False) -> None:
        if self._fd < 0:
            return
        try:
            os.write(self._fd, msgspec.json.encode(line) + b"\n")
        except OSError:
            is_last = True
        if is_last:
            os.close(self._fd)
            self._fd = -1


def _end(node: NodeProcess) -> None:
    """Stop because the spawner has ended. There is nobody to send a second signal."""
    timer = threading.Timer(2 * STOP_SECONDS, os._exit, [1])
    timer.daemon = True
    timer.start()
    node.stop()


if __name__ == "__main__":
    sys.exit(main())
