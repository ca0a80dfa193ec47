"""How tests call the command line, in this process or in one of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
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
