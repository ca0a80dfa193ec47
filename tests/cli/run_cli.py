"""How tests call the command line, in this process or in one of its own."""

import errno
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from headrace import telemetry


class Answer(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Answer]


def on(bare: Cli, url: str) -> Cli:
    def call(*args: str, input: str | bytes | None = None) -> Answer:
        return bare("--url", url, *args, input=input)

    return call


@contextmanager
def events_of(operation: str) -> Iterator[list[telemetry.Event]]:
    """The runs of an operation in this thread. A node in this process has its own thread."""
    here = threading.current_thread()
    seen: list[telemetry.Event] = []

    def note(event: telemetry.Event) -> None:
        if event.operation == operation and threading.current_thread() is here:
            seen.append(event)

    unsubscribe = telemetry.subscribe(note)
    try:
        yield seen
    finally:
        unsubscribe()


def command(*args: str) -> list[str]:
    """The command line for a process of its own, in which every warning is an error."""
    return [sys.executable, "-W", "error", "-m", "headrace", *args]


def run(*args: str, input: str | None = None, **options: Any) -> Answer:
    """Run ``headrace`` in a process of its own."""
    done = subprocess.run(
        command(*args),
        input=input,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def on_terminal(
    *args: str, typed: str = "", input: str | None = None, is_data_shown: bool = False
) -> tuple[int, str, str]:
    """Run with a terminal as stderr, as stdin if there is no input, and as stdout if data is shown
    there. Return the exit code, what was printed to a stdout that is no terminal, and the
    screen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*args),
        stdin=theirs if input is None else subprocess.PIPE,
        stdout=theirs if is_data_shown else subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    with ThreadPoolExecutor(1) as pool:
        # Read all the time: a full screen would make the process wait.
        screen = pool.submit(_drain, ours)
        try:
            out, _ = process.communicate(input, timeout=60)
        finally:
            process.kill()
            process.wait()
        shown = screen.result(60)
    os.close(ours)
    return process.returncode, out or "", shown


def _drain(terminal: int) -> str:
    seen = b""
    while True:
        try:
            some = os.read(terminal, 65536)
        except OSError as error:
            # Linux reports in this way that the other side is closed.
            if error.errno != errno.EIO:
                raise
            some = b""
        if not some:
            return seen.decode()
        seen += some
