"""A node in a process of its own that is killed, frozen and started again at the same address."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from faults.polling import PATIENCE


class RestartedNode:
    """A ``headrace up``: on a free port of its own, or on a Unix socket."""

    def __init__(self, store: str, folder: Path, *, is_unix: bool) -> None:
        self._store = store
        self._folder = folder
        self._address = (
            ("--socket", str(folder / "run" / "node.sock"))
            if is_unix
            else ("--listen", "127.0.0.1:0", "--open")
        )
        self._start()
        # From now on the port is known.
        if not is_unix:
            self._address = ("--listen", self.url.removeprefix("http://"), "--open")

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-W", "error", "-m", "headrace", "up", self._store),
                *(*self._address, "--json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "HEADRACE_RUNTIME_DIR": str(self._folder / "run"),
                "HEADRACE_MIGRATE": "create",
            },
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.url: str = json.loads(line)["url"]

    def kill(self) -> None:
        """SIGKILL. A node that ended in any other way before has failed."""
        self.process.kill()
        _, errors = self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL, errors
        assert "Traceback" not in errors, errors

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self._start()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> str:
        """SIGTERM; returns what the node has written to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors
        return errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
