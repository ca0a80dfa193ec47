"""PipeProc on disk (LevelDB), driven through its own client by a Node script."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from bench.context import Facts, Lab, PeerMissing
from bench.lines import LineReader
from bench.peers.servers import PEERS

HERE = Path(__file__).parent
INSTALL_SECONDS = 300
ANSWER_SECONDS = 60.0


class PipeProc:
    """A running node and the driver that spawned it."""

    def __init__(self, driver: Driver, environment: dict[str, str], namespace: str) -> None:
        self._driver = driver
        self._environment = environment
        self._namespace = namespace
        self.facts = Facts("LevelDB, not synced", "pipeproc 0.4.1", "Node")

    def rate(self, what: str, topic: str, size: int, seconds: float) -> float:
        """Records a second, ``commit`` or ``range``, ``size`` at a time."""
        return self._driver.ask(do=what, topic=topic, size=size, seconds=seconds)["rate"]

    def callers_rate(self, topic: str, callers: int, seconds: float) -> float:
        """Records a second that concurrent callers of one client commit, one at a time each."""
        return self._driver.ask(do="callers", topic=topic, callers=callers, seconds=seconds)["rate"]

    def fill(self, topic: str, count: int) -> None:
        self._driver.ask(do="fill", topic=topic, count=count)

    def send(self, topic: str, *, warm: bool) -> None:
        """Commit a record that carries the time."""
        self._driver.ask(do="send", topic=topic, warm=warm)

    @contextmanager
    def live(self, topic: str) -> Iterator[Driver]:
        """A live proc in a process of its own: prints a line for each record it gets."""
        with Driver(self._environment) as receiver:
            receiver.ask(do="connect", namespace=self._namespace)
            receiver.ask(do="live", topic=topic)
            yield receiver


class Driver:
    """The Node script in a process: a line of JSON in, a line of JSON out."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["node", HERE / "drive.js", environment["BODIES"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=environment["TMPDIR"],
            start_new_session=True,
        )
        self.lines = LineReader(self._process)

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.lines.next(ANSWER_SECONDS))
        if "error" in answer:
            raise RuntimeError(f"PipeProc, {command['do']}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def start(lab: Lab) -> Iterator[PipeProc]:
    folder = _installed()
    with lab.subfolder("pipeproc") as place:
        bodies = place / "bodies.json"
        bodies.write_text(json.dumps(lab.bodies))
        environment = {
            **os.environ,
            "NODE_PATH": str(folder / "node_modules"),
            "TMPDIR": str(place),  # its socket goes there
            "BODIES": str(bodies),
        }
        namespace = "bench"
        with Driver(environment) as driver:
            spawned = driver.ask(do="spawn", namespace=namespace, location=str(place / "store"))
            peer = PipeProc(driver, environment, namespace)
            peer.facts = peer.facts._replace(server=f"Node {spawned['node'].lstrip('v')}")
            try:
                yield peer
            finally:
                with suppress(OSError, RuntimeError, TimeoutError):
                    driver.ask(do="stop")
                # The node is detached from its driver, so it may have stayed behind.
                with suppress(ProcessLookupError):
                    os.kill(spawned["pid"], signal.SIGKILL)


def _installed() -> Path:
    folder = PEERS / "pipeproc"
    if (folder / "node_modules" / "pipeproc").is_dir():
        return folder
    if not (shutil.which("node") and shutil.which("npm")):
        raise PeerMissing("PipeProc needs node and npm, which are not on the path")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", folder)
    print("  fetching pipeproc", flush=True)
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise PeerMissing(f"npm install pipeproc failed: {last}")
    return folder
