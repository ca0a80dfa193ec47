"""How tests call the command line, in this process or in one of its own."""

import errno
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """How a command ended and what it printed."""

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


def command(*args: str) -> list[str]:
    """The command line for a process of its own, where every warning is an error."""
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
    """Run with a terminal as stderr (and as stdin, without input; as stdout, if data is
    shown there): code, what was printed to stdout if it was no terminal, and the screen."""
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
        # Read all along: a full screen would make the process wait.
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
            # How Linux says that the other side is closed.
            if error.errno != errno.EIO:
                raise
            some = b""
        if not some:
            return seen.decode()
        seen += some
