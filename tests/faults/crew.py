"""Child processes of a test: started, watched, ended, and never left behind."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from faults.waiting import PATIENCE
from headrace.testing.ledger import Entry, read

TESTS = Path(__file__).parent.parent


class Child:
    """One process, its ledger, and those of its own children."""

    def __init__(self, program: str, name: str, folder: Path, arguments: dict[str, Any]) -> None:
        self.name = name
        self.ledger = folder / f"{name}.ledger"
        self.ledger.touch()
        self._errors = folder / f"{name}.errors"
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        arguments = {"ledger": str(self.ledger), "name": name, **arguments}
        command = [sys.executable, "-W", "error", "-m", f"faults.children.{program}"]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, json.dumps(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                # A group of its own, so that its children can be ended with it.
                start_new_session=True,
            )

    def entries(self) -> list[Entry]:
        return read(self.ledger.parent.glob(f"{self.ledger.name}*"))

    def lines(self) -> int:
        """How many lines its own ledger has."""
        return self.ledger.read_bytes().count(b"\n")

    def is_at_work(self) -> bool:
        """Whether the child has begun; fails if it has ended by itself."""
        assert self.process.poll() is None, f"{self.name} ended by itself: {self.errors()}"
        return self.lines() > 0

    def kill(self) -> None:
        """SIGKILL; a child that had ended in any other way before has failed."""
        self.process.kill()
        self.await_end(-signal.SIGKILL)

    def finish(self) -> None:
        """Ask the child to stop, and see that it had nothing to complain about."""
        self.process.terminate()
        self.await_end()

    def await_end(self, expected: int = 0, seconds: float = PATIENCE) -> None:
        code = self.process.wait(seconds)
        assert code == expected, f"{self.name} ended with {code}: {self.errors()}"

    def errors(self) -> str:
        """What the child has written."""
        return self._errors.read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """End it, and what it has started, if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


class Crew:
    """All children of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self.children: list[Child] = []

    def start(self, program: str, **arguments: Any) -> Child:
        child = Child(program, f"{program}{next(self._numbers)}", self._folder, arguments)
        self.children.append(child)
        return child

    def entries(self) -> list[Entry]:
        """The ledgers of all children, dead or alive."""
        return [entry for child in self.children for entry in child.entries()]

    def close(self) -> None:
        for child in self.children:
            child.close()
