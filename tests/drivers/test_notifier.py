"""Waiters in this process, and the descriptors that wake them."""

import os
import threading
from pathlib import Path

from headrace.drivers.notifier import Notifier, NotifierWaiter, WakePipe


def test_a_wake_after_close_writes_to_no_file_of_others(tmp_path: Path) -> None:
    """A notification may reach a waiter that was closed meanwhile. Its descriptors have other
    owners by then: a database, or a connection."""
    waiter = NotifierWaiter(Notifier(), "t", None)
    waiter.close()
    others = [os.open(tmp_path / str(n), os.O_RDWR | os.O_CREAT) for n in range(4)]
    try:
        waiter.wake()
        assert [os.fstat(other).st_size for other in others] == [0] * 4
    finally:
        for other in others:
            os.close(other)


def test_closing_twice_closes_no_file_of_others(tmp_path: Path) -> None:
    waiter = NotifierWaiter(Notifier(), "t", None)
    waiter.close()
    others = [os.open(tmp_path / str(n), os.O_RDWR | os.O_CREAT) for n in range(4)]
    waiter.close()
    for other in others:
        os.close(other)


def test_wakes_race_with_closes(tmp_path: Path) -> None:
    """Threads wake waiters that another one closes, while files are opened all the time."""
    notifier = Notifier()
    is_over = threading.Event()

    def notify() -> None:
        while not is_over.is_set():
            notifier.notify(["t"])

    threads = [threading.Thread(target=notify) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(300):
            waiter = NotifierWaiter(notifier, "t", None)
            waiter.close()
            file = os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT)
            assert os.fstat(file).st_size == 0
            os.close(file)
            assert (tmp_path / str(number)).read_bytes() == b""
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_a_wake_pipe_neither_blocks_nor_reaches_child_programs() -> None:
    pipe = WakePipe()
    try:
        for descriptor in (pipe._reading, pipe._writing):
            assert not os.get_blocking(descriptor)
            assert not os.get_inheritable(descriptor)
    finally:
        pipe.close()
