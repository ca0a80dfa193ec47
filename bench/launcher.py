"""Starting players: the peer's packages first, into a folder of its own, then the process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.context import Lab, PeerMissing
from bench.lines import LineReader
from bench.peers.servers import PEERS

INSTALL_SECONDS = 300
OPEN_SECONDS = 60.0
ANSWER_SECONDS = 120.0


class Kind(NamedTuple):
    """A kind of player: its module, what pip is to install for it, and the server it needs."""

    module: str
    packages: tuple[str, ...] = ()
    server: str = ""


class Process:
    """A player that runs, as its parent sees it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.pid = process.pid
        self.lines = LineReader(process)
        self._process = process
        self._log = log
        try:
            opened = self._next(OPEN_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            raise PeerMissing(str(error)) from error
        self.client: str = opened["client"]
        self.durability: str = opened["durability"]

    def ask(self, do: str, **options: Any) -> Any:
        """What the player's method of that name returns."""
        self.tell(do, **options)
        return self.hear()

    def tell(self, do: str, **options: Any) -> None:
        """Ask without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **options}).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, seconds: float = ANSWER_SECONDS) -> Any:
        """The answer to what was told."""
        return self._next(seconds)["value"]

    def _next(self, seconds: float) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(self.lines.next(seconds))
        except RuntimeError as ended:
            raise RuntimeError(f"{ended}: {self._log.read_text(errors='replace')[-300:]}") from None
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


class Seat:
    """One place of a troupe's process (see ``bench.multi_contender``), asked as if it were a process."""

    def __init__(self, process: Process, where: str) -> None:
        self._process = process
        self._where = where

    def ask(self, do: str, **options: Any) -> Any:
        self.tell(do, **options)
        return self.hear()

    def tell(self, do: str, **options: Any) -> None:
        self._process.tell("at", where=self._where, what=do, options=options)

    def hear(self, seconds: float = ANSWER_SECONDS) -> Any:
        return self._process.hear(seconds)


@contextmanager
def playing(lab: Lab, name: str, kind: Kind, where: str) -> Iterator[Process]:
    """A player from its first answer until it is no longer needed."""
    folder = _installed(kind.packages)
    log = lab.folder / f"{name}.log"
    # A peer's own packages go first: it gets the versions that it asked for.
    places = [str(folder)] if folder else []
    places += filter(None, [os.environ.get("PYTHONPATH")])
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.contender", kind.module, where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            start_new_session=True,
        )
    try:
        yield Process(process, log)
    finally:
        # With whatever the peer has started.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _installed(packages: Sequence[str]) -> Path | None:
    if not packages:
        return None
    # Plain letters only: dramatiq looks for its scripts by a pattern that brackets would break.
    folder = PEERS / "python" / re.sub(r"[^\w.]+", "-", packages[0])
    mark = folder / "installed-from"
    wanted = "\n".join(packages)
    if mark.exists() and mark.read_text() == wanted:
        return folder
    print(f"  fetching {', '.join(packages)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*command, "--target", str(folder), *packages],
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerMissing(f"pip install {packages[0]} took over {INSTALL_SECONDS} s") from late
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise PeerMissing(f"pip install {packages[0]} failed: {last}")
    mark.write_text(wanted)
    return folder
