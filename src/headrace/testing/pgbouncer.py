"""A private PgBouncer before a private PostgreSQL, with its own folder and port. It is removed when
closed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import psycopg

from headrace.testing.postgres import PrivatePostgres, free_port, unprivileged_user

START_SECONDS = 30.0


class PgBouncerMissing(RuntimeError):
    """No PgBouncer on this machine."""


def find_pgbouncer() -> Path:
    """The program: from ``HEADRACE_PGBOUNCER``, Debian's folder, or the path."""
    named = os.environ.get("HEADRACE_PGBOUNCER")
    on_path = shutil.which("pgbouncer")
    for found in (named, "/usr/sbin/pgbouncer", on_path):
        if found and Path(found).exists():
            return Path(found)
    raise PgBouncerMissing(
        "PgBouncer was not found: install it (Debian: apt-get install pgbouncer), or set "
        "HEADRACE_PGBOUNCER to the program."
    )


class PrivatePgBouncer:
    """A pooler in transaction mode before one server.

    >>> with PrivatePostgres() as server, PrivatePgBouncer(server, sessions=2) as pooler:
    ...     hr = headrace.connect(pooler.url)

    ``sessions`` is the number of server sessions that all clients share; the one that was given
    back last is given out first. ``auth`` says how clients log in, with what password unless any
    will do.
    """

    def __init__(
        self,
        server: PrivatePostgres,
        *,
        sessions: int = 2,
        mode: str = "transaction",
        auth: str = "any",
        password: str = "",
    ) -> None:
        self._password = password
        self.program = find_pgbouncer()
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-pgbouncer-"))
        self.port = free_port()
        # PgBouncer refuses to run as root.
        self._as_user: dict[str, Any] = {"cwd": self.folder}
        if os.geteuid() == 0:
            user = unprivileged_user()
            self._as_user |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, -1)
            self.folder.chmod(0o755)
        (self.folder / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"postgres = host=127.0.0.1 port={server.port} dbname=postgres user=headrace\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = {auth}\nauth_file = {self.folder / 'users'}\n"
            f"pool_mode = {mode}\ndefault_pool_size = {sessions}\n"
            "max_client_conn = 500\nignore_startup_parameters = extra_float_digits\n"
        )
        (self.folder / "users").write_text(f'"headrace" "{password}"\n')
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        login = f"headrace:{self._password}" if self._password else "headrace"
        return f"postgresql://{login}@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self.program), "-q", str(self.folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_user,
            )
        give_up = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"PgBouncer did not start: {self.log()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def log(self) -> str:
        """The end of its log."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def close(self) -> None:
        """Stop the pooler and remove its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)
