"""PySpark's daemon, in whose workers Python runs for Spark, with two manners of our own.

It is started in place of ``pyspark.daemon`` by the ``bin/python`` beside it, and by its path: to
import all of Headrace in each daemon would take longer than PySpark itself.
"""

# ruff: noqa: INP001  # a file to be run, in no package

from __future__ import annotations

import gc
import os
import socket
from itertools import count

from pyspark import daemon

_work = daemon.worker
_turns = count()


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Wait for a task, and do it; called again and again in each worker."""
    if next(_turns) == 1:
        # The first task has imported what there is to import. PySpark looks for garbage after
        # each of them, and need not go through all modules again: that takes longer than some.
        gc.freeze()
    if not sock.recv(1, socket.MSG_PEEK):
        # There will be no more. PySpark would take that for a failure, try to tell Spark, which
        # has closed the socket, and fail in turn with a traceback on the user's terminal.
        os._exit(0)
    return _work(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
