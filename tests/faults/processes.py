"""Child processes of a test: started, watched, ended, and never left behind."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from faults.polling import PATIENCE
from headrace.testing.audit_log import AuditEntry, read

TESTS = Path(__file__).parent.parent


class Child:
    """One process, its audit log, and those of its own children."""

    def __init__(self, program: str, name: str, folder: Path, arguments: dict[str, Any]) -> None:
        self.name = name
        self.log_path = folder / f"{name}.audit"
        self.log_path.touch()
        self._errors = folder / f"{name}.errors"
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        arguments = {"log_path": str(self.log_path), "name": name, **arguments}
        command = [sys.executable, "-W", "error", "-m", f"faults.children.{program}"]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, json.dumps(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                # A process group of its own, so that its children can be ended with it.
                start_new_session=True,
            )

    def entries(self) -> list[AuditEntry]:
        return read(self.log_path.parent.glob(f"{self.log_path.name}*"))

    def lines(self) -> int:
        """The number of lines in its own audit log."""
        return self.log_path.read_bytes().count(b"\n")

    def is_at_work(self) -> bool:
        """Whether the child has started. Fails if it has exited."""
        assert self.process.poll() is None, f"{self.name} ended unexpectedly: {self.errors()}"
        return self.lines() > 0

    def kill(self) -> None:
        """SIGKILL. A child that ended in any other way before has failed."""
        self.process.kill()
        self.await_end(-signal.SIGKILL)

    def finish(self) -> None:
        """Ask the child to stop, and check that it exits without an error."""
        self.process.terminate()
        self.await_end()

    def await_end(self, expected: int = 0, seconds: float = PATIENCE) -> None:
        code = self.process.wait(seconds)
        assert code == expected, f"{self.name} ended with {code}: {self.errors()}"

    def errors(self) -> str:
        """What the child has written to stderr."""
        return self._errors.read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """End it and its children, if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


class ChildProcesses:
    """All child processes of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self.children: list[Child] = []

    def start(self, program: str, **arguments: Any) -> Child:
        child = Child(program, f"{program}{next(self._numbers)}", self._folder, arguments)
        self.children.append(child)
        return child

    def entries(self) -> list[AuditEntry]:
        """The audit logs of all children, dead or alive."""
        return [entry for child in self.children for entry in child.entries()]

    def close(self) -> None:
        for child in self.children:
            child.close()
