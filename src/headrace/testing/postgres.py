"""A private PostgreSQL server with its own folder, port and user. It is removed when closed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psycopg

START_SECONDS = 60.0
FOR_TESTS = {"fsync": "off", "full_page_writes": "off", "autovacuum_naptime": "1s"}


class PostgresMissing(RuntimeError):
    """No PostgreSQL server binaries on this machine."""


def find_binaries() -> Path:
    """The folder with initdb and postgres: from ``HEADRACE_PG_BIN``, Debian's folder, or the
    path."""
    named = os.environ.get("HEADRACE_PG_BIN")
    on_path = shutil.which("initdb")
    folders = [Path(named)] if named else []
    folders += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True
    )
    folders += [Path(on_path).parent] if on_path else []
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresMissing(
        "PostgreSQL's server programs were not found: install them (Debian: "
        "apt-get install postgresql), or set HEADRACE_PG_BIN to the folder with initdb."
    )


class PrivatePostgres:
    """A server that only this process uses.

    >>> with PrivatePostgres() as server:
    ...     hr = headrace.connect(server.url)

    ``settings`` go to the server; ``FOR_TESTS`` makes it fast and unsafe against power
    cuts (a killed server loses nothing).
    """

    def __init__(self, settings: Mapping[str, str] = FOR_TESTS) -> None:
        self.binaries = find_binaries()
        self.settings = dict(settings)
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
        self.port = free_port()
        self.database = "postgres"
        # initdb refuses root. The server then runs as an unprivileged user.
        self._user = unprivileged_user().pw_uid if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self.folder, self._user, -1)
            self.folder.chmod(0o755)

    @property
    def url(self) -> str:
        return f"postgresql://headrace@127.0.0.1:{self.port}/{self.database}"

    def __enter__(self) -> Self:
        try:
            self._initdb()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _initdb(self) -> None:
        command = [
            str(self.binaries / "initdb"),
            *("-D", str(self.folder / "data"), "-U", "headrace", "-A", "trust"),
            *("-E", "UTF8", "--locale=C", "--no-sync"),
        ]
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, capture_output=True, check=False, **self._as_user()
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.decode()}")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            **self.settings,
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self.binaries / "postgres"),
                    *("-D", str(self.folder / "data")),
                    *(f"--{name}={value}" for name, value in settings.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user(),
            )
        give_up = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"the server did not start: {self.log()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, *, immediately: bool = False) -> None:
        """Stop the server. ``immediately`` is like a crash: nothing is flushed."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT if immediately else signal.SIGINT)
        try:
            self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self, *, immediately: bool = False) -> None:
        self.stop(immediately=immediately)
        self.start()

    def freeze(self) -> None:
        """Stop all its processes with SIGSTOP. The kernel still accepts connections."""
        assert self._process is not None
        stopped: set[int] = set()
        # Its children are found once it can start no further ones.
        while pids := {self._process.pid, *_children(self._process.pid)} - stopped:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            stopped |= pids

    def thaw(self) -> None:
        """Continue all its processes."""
        assert self._process is not None
        for pid in (*_children(self._process.pid), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def execute(self, statement: str, *parameters: Any) -> list[Any]:
        """Run one statement directly, without Headrace."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def log(self) -> str:
        """The end of the server's log."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop(immediately=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _as_user(self) -> dict[str, Any]:
        # The working folder must be one that this user may enter.
        place: dict[str, Any] = {"cwd": self.folder}
        if self._user is not None:
            entry = pwd.getpwuid(self._user)
            place |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        return place


def unprivileged_user() -> pwd.struct_passwd:
    """A user for servers that refuse to run as root."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("there is no user 'postgres' or 'nobody' to run the server as")


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    """The child processes of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]
