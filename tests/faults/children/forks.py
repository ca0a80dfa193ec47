"""Forks of a program with one thread: processes that start immediately."""

import os
import signal
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

# What ``connect`` imports on demand: here, once, before any fork.
for driver in ("postgres.schema", "sqlite.store"):
    import_module(f"headrace.drivers.{driver}")


def fork(work: Callable[[], object]) -> int:
    """Do some work in a child that then exits immediately, without any cleanup."""
    pid = os.fork()
    if pid == 0:
        _work_and_end(work)
    return pid


def _work_and_end(work: Callable[[], object]) -> NoReturn:
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def await_end(pid: int, expected: int = 0) -> None:
    """Wait for a child, and check that it ended as it should."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code == expected, f"a child ended with {code}, not with {expected}"


def kill(pid: int) -> None:
    """SIGKILL. A child that ended in any other way before has failed."""
    os.kill(pid, signal.SIGKILL)
    await_end(pid, -signal.SIGKILL)
