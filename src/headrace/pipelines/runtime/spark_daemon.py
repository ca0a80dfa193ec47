"""PySpark's daemon, in whose workers Python runs for Spark, with two changes.

``bin/python`` beside it starts it in place of ``pyspark.daemon``, by its path: importing all of
Headrace in each daemon would take longer than importing PySpark.
"""

# ruff: noqa: INP001  # a script that belongs to no package

from __future__ import annotations

import gc
import os
import socket
from itertools import count

from pyspark import daemon

_work = daemon.worker
_turns = count()


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Wait for a task and run it; called repeatedly in each worker."""
    if next(_turns) == 1:
        # The first task has imported all modules. PySpark collects garbage after each task, and
        # need not scan these modules again: that takes longer than some tasks.
        gc.freeze()
    if not sock.recv(1, socket.MSG_PEEK):
        # There are no more tasks. PySpark would treat that as a failure, try to report it to Spark
        # on the closed socket, and print a traceback on the user's terminal.
        os._exit(0)
    return _work(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
